#!/bin/bash
# Makes the database ready and says what is missing: the superuser's password, where plpython3u finds the packages,
# cerebro-db in the database, and the check. Images run it once, on an empty volume, as the server's OS user. Again is fine:
#   docker compose exec --user postgres database cerebro-init
#
#   CEREBRO_DATABASE  the database; default: cerebro
#   CEREBRO_VENV      where the packages are; default: /opt/cerebro/venv
#   CEREBRO_PASSWORD  a file with the superuser's password; default: /run/cerebro/password
#   PGHOST, PGPORT    of a server that psql would not find by itself
set -euo pipefail
database=${CEREBRO_DATABASE:-cerebro}
venv=${CEREBRO_VENV:-/opt/cerebro/venv}
export CEREBRO_PASSWORD=${CEREBRO_PASSWORD:-/run/cerebro/password}

if [ -n "${GREENPLUM_DEPLOYMENT:-}" ]; then
    set +u # it reads variables that may not be there
    # shellcheck source=/dev/null
    . ~/.bashrc # of the image: Greenplum's programs, and where the coordinator's data are
    set -u
fi

step() { echo "cerebro: $*"; }

sql() { psql -X -q -At -v ON_ERROR_STOP=1 "$@"; }

# From the file to the server by psql itself: past argument lists and the environment, and not into the log.
set_password() {
    step "the superuser's password"
    sql -d postgres <<'SQL'
set log_statement = 'none';
set log_min_duration_statement = -1;
set log_min_error_statement = 'panic';
\set password `cat "$CEREBRO_PASSWORD"`
select current_user as superuser \gset
alter role :"superuser" password :'password';
SQL
}

# Greenplum clears PYTHONPATH; PostgreSQL has it from the environment of its image.
set_python_path() {
    local packages
    packages=$(env -u PYTHONPATH -u PYTHONHOME "$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    step "plpython3.python_path = $packages, on the coordinator and every segment"
    USER=$(id -un) gpconfig -c plpython3.python_path -v "'$packages'" --skipvalidation
    gpstop -u
}

make_database() {
    step "database $database"
    [ -n "$(sql -d postgres -c "select 1 from pg_catalog.pg_database where datname = '${database//\'/\'\'}'")" ] ||
        createdb -T template0 -E UTF8 "$database"
}

# command_here WORD...: cerebro-db in this database, without the libraries and packages that Greenplum's programs take.
command_here() {
    local host
    host=${PGHOST:-$(sql -d postgres -c "select trim(split_part(current_setting('unix_socket_directories'), ',', 1))")}
    env -u PYTHONPATH -u PYTHONHOME -u LD_LIBRARY_PATH \
        "$venv/bin/cerebro-db" "$@" --dsn "host='$host' dbname='$database'"
}

# On Greenplum not as an extension: gpbackup leaves out the tables of extensions, and the runs are in such tables.
install_into() {
    if [ -n "${GREENPLUM_DEPLOYMENT:-}" ]; then
        step "cerebro-db"
        command_here install
    else
        step "extension cerebro"
        sql -d "$database" -c 'set client_min_messages = warning; create extension if not exists cerebro cascade'
    fi
}

check() {
    step "check"
    command_here check || step "something is missing, see above; the server starts all the same"
}

set_password
if command -v gpconfig >/dev/null; then set_python_path; fi
make_database
install_into
check
