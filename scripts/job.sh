# shellcheck shell=bash
# Sourced by the demos with the folder of their SQL: the server, and steps that show the SQL they run.
# Needs cerebro-db on the PATH and a server: the embedded one, or another named by CEREBRO_DEMO_DSN.
folder=$1
dsn=${CEREBRO_DEMO_DSN:-$(cerebro-db dsn)}
reports=${CEREBRO_DEMO_REPORTS:-build}
counts=${CEREBRO_DEMO_COUNTS:-} # a file, when the bytes of the client's connections are to be counted
export PGOPTIONS="${PGOPTIONS:-} -c client_min_messages=warning"

step() { printf '\n\033[1m== %s\033[0m\n' "$*"; }

# sql FILE [OPTION...]: run a file of the job, showing its statements.
sql() { psql -X -q -a -v ON_ERROR_STOP=1 -P footer=off "${@:2}" "$dsn" <"$folder/$1"; }

# train ARGUMENT...: cerebro-db fit.
train() {
    if [ -n "$counts" ]; then
        python -m experiments.wire "$counts" "$dsn" cerebro-db fit "$@"
    else
        cerebro-db fit "$@" --dsn "$dsn"
    fi
}

# client FILE: a file of the job that compares with what went through the client; nothing when it was not counted.
client() {
    [ -n "$counts" ] || return 0
    local numbers
    mapfile -t numbers <"$counts"
    step "What went through the client"
    sql "$1" "${numbers[@]/#/-v}"
}

# report MODELS NAME: the page about the run that left this model table.
report() {
    local run
    run=$(psql -X -q -At "$dsn" -c "select run_id from $1_summary")
    mkdir -p "$reports"
    cerebro-db report "$run" --output "$reports/$2-run-$run.html" --dsn "$dsn"
}
