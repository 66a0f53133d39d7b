#!/bin/bash
# Makes one host of a database server ready for cerebro-db: a virtual environment of the Python that plpython3u embeds,
# torch, the package, and the files of `create extension cerebro`. Run it as root on EVERY host of a cluster, with the
# same settings; a second run brings an older installation up to date.
#
#   PG_CONFIG=/usr/local/greenplum-db/bin/pg_config scripts/install_host.sh [environment|package]
#
#   PG_CONFIG    the server's; default: pg_config on the PATH
#   VENV         where the packages go; every host needs the same path; default: /opt/cerebro/venv
#   PYTHON       the interpreter to make it with; default: the one that plpython3.so names
#   TORCH        version of torch; default: the newest that was tried with that Python
#   TORCH_INDEX  where pip finds torch; default: PyTorch's builds for CPUs
#
# `environment` only makes the environment with torch, `package` only installs cerebro-db into it.
set -euo pipefail
umask 022                   # the server's user must be able to read it
unset PYTHONHOME PYTHONPATH # greenplum_path.sh sets them, for Greenplum's own Python

here=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=scripts/python.sh
. "$here/scripts/python.sh"
pg_config=${PG_CONFIG:-pg_config}
venv=${VENV:-/opt/cerebro/venv}

fail() {
    echo "install_host: $*" >&2
    exit 1
}

pip() { "$venv/bin/python" -m pip install --quiet --no-cache-dir --disable-pip-version-check "$@"; }

# The library of plpython3u, of the server that PG_CONFIG belongs to.
library() {
    local folder
    folder=$("$pg_config" --pkglibdir) || fail "$pg_config does not run; set PG_CONFIG to the server's pg_config"
    [ -f "$folder/plpython3.so" ] ||
        fail "the server has no plpython3u: $folder/plpython3.so does not exist; install it first"
    echo "$folder/plpython3.so"
}

# interpreter MINOR: the program of that version, also where Greenplum brings its own.
interpreter() {
    local candidate
    for candidate in "python$1" "$("$pg_config" --bindir)/../ext/python$1/bin/python$1" /usr/bin/python3; do
        if [ "$(minor_of "$candidate")" = "$1" ]; then
            command -v "$candidate"
            return
        fi
    done
    fail "plpython3u embeds Python $1, and no python$1 is on this host; install it, or name it by PYTHON"
}

make_environment() {
    local file linked python torch=2.13.0
    file=$(library)
    linked=$(linked_minor "$file")
    python=${PYTHON:-$(interpreter "$linked")}
    [ "$(minor_of "$python")" = "$linked" ] || fail "plpython3u embeds Python $linked, and $python is $(minor_of "$python")"
    [ "$linked" != 3.9 ] || torch=2.8.0 # the last one for it
    [ "$(minor_of "$venv/bin/python")" = "$linked" ] || "$python" -m venv --clear "$venv"
    pip "torch==${TORCH:-$torch}" --index-url "${TORCH_INDEX:-https://download.pytorch.org/whl/cpu}"
    echo "install_host: $venv has Python $linked and torch ${TORCH:-$torch}"
}

install_package() {
    pip --upgrade "$here"
    "$venv/bin/python" "$here/extension/build.py" install --pg-config "$pg_config"
    echo "install_host: $("$venv/bin/cerebro-db" --version) is in $(packages)"
}

# What plpython3u must find: PYTHONPATH of PostgreSQL, plpython3.python_path of Greenplum.
packages() { "$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }

case ${1:-all} in
    environment) make_environment ;;
    package) install_package ;;
    all)
        make_environment
        install_package
        ;;
    *) fail "unknown step $1: expected environment, package or nothing" ;;
esac
