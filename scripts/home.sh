# shellcheck shell=sh
# Sourced: sets CEREBRO_HOME as cerebro_db/environment.py does. Data and virtual environment live there.
if [ -z "${CEREBRO_HOME:-}" ]; then
    if [ "$(id -u)" -eq 0 ]; then
        CEREBRO_HOME=/var/lib/cerebro-db
    else
        CEREBRO_HOME=${XDG_DATA_HOME:-$HOME/.local/share}/cerebro-db
    fi
fi
export CEREBRO_HOME
