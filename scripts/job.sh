# shellcheck shell=bash
# Sourced by the demos with the folder of their SQL: the server, and steps that show the SQL they run.
# Needs cerebro-db on the PATH and a server: the embedded one, or another named by CEREBRO_DEMO_DSN.
folder=$1
dsn=${CEREBRO_DEMO_DSN:-$(cerebro-db dsn)}
reports=${CEREBRO_DEMO_REPORTS:-build}
export PGOPTIONS="${PGOPTIONS:-} -c client_min_messages=warning"

step() { printf '\n\033[1m== %s\033[0m\n' "$*"; }

# sql FILE: run a file of the job, showing its statements.
sql() { psql -X -q -a -v ON_ERROR_STOP=1 -P footer=off "$dsn" <"$folder/$1"; }

# report MODELS NAME: the page about the run that left this model table.
report() {
    local run
    run=$(psql -X -q -At "$dsn" -c "select run_id from $1_summary")
    mkdir -p "$reports"
    cerebro-db report "$run" --output "$reports/$2-run-$run.html" --dsn "$dsn"
}
