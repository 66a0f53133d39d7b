#!/bin/bash
# Healthy means: the server takes sessions over TCP, which it does not while it is being set up; the database has
# cerebro-db; and of Greenplum every segment answers. A host of segments is healthy when its ssh answers, since the
# coordinator starts the segments by it.
set -euo pipefail

as_server() { gosu "$CEREBRO_OS_USER" "$@"; }

sql() { as_server psql -XAtq -d "${CEREBRO_DATABASE:-cerebro}" -c "$1" >/dev/null; }

if [ "${GREENPLUM_DEPLOYMENT:-}" = segment ]; then
    [ -n "$(ssh-keyscan -T 3 -t rsa localhost 2>/dev/null)" ]
    exit
fi
if [ -n "${GREENPLUM_DEPLOYMENT:-}" ]; then
    set +u # that file reads variables that may not be there
    # shellcheck source=/dev/null
    . /usr/local/greenplum-db/greenplum_path.sh
    set -u
fi
as_server pg_isready -q -h 127.0.0.1
sql 'select cerebro_private.version()'
[ -z "${GREENPLUM_DEPLOYMENT:-}" ] || sql "select count(*) from gp_dist_random('gp_id')"
