#!/bin/bash
# The main demo on a Greenplum cluster, or on any other server: CEREBRO_DEMO_DSN, a superuser's. The server's hosts have
# the package already (docker/README.md); the database is made when it is missing. Beside what the main demo shows it
# counts what went through the client.
#   PYTHON_PATH  where the hosts have the packages, unless plpython3.python_path of the cluster says it
set -euo pipefail
cd "$(dirname "$0")/.."
[ -n "${CEREBRO_DEMO_DSN:-}" ] || {
    echo "name the server: make demo-greenplum DSN='host=... user=gpadmin dbname=cerebro'" >&2
    exit 2
}
# shellcheck source=scripts/job.sh
. scripts/job.sh experiments/demo
CEREBRO_DEMO_COUNTS=$(mktemp)
export CEREBRO_DEMO_COUNTS
trap 'rm -f "$CEREBRO_DEMO_COUNTS"' EXIT

step "Database"
python -m experiments.demo.database "$dsn" ${PYTHON_PATH:+"$PYTHON_PATH"}
cerebro-db install --dsn "$dsn"

step "What its hosts have and lack"
cerebro-db check --dsn "$dsn"

scripts/demo.sh
