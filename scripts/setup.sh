#!/bin/bash
# Makes this machine ready: Debian packages, a virtual environment, torch, cerebro-db. Does only what is
# missing, so a second run takes about a second. TORCH picks another torch version.
set -euo pipefail
umask 022  # the server's user must be able to read the virtual environment

here=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=scripts/home.sh
. "$here/scripts/home.sh"
# shellcheck source=scripts/python.sh
. "$here/scripts/python.sh"
torch=${TORCH:-2.13.0}
venv=$CEREBRO_HOME/venv
log=$CEREBRO_HOME/setup.log

fail() {
    echo "setup: $*" >&2
    exit 1
}

# step TEXT COMMAND...: run quietly, one line with its seconds; on failure the end of its output.
step() {
    local text=$1 start=$SECONDS
    shift
    if ! "$@" >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        fail "$text: failed; all of its output is in $log"
    fi
    echo "setup: $text ($((SECONDS - start)) s)"
}

# -- Debian packages

installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# Major version of the newest PostgreSQL here that has plpython3u, or nothing.
fitting_major() {
    local control
    for control in $(printf '%s\n' /usr/share/postgresql/*/extension/plpython3u.control | sort -rV); do
        control=${control%/extension/*}
        if [ -x "/usr/lib/postgresql/${control##*/}/bin/postgres" ]; then
            echo "${control##*/}"
            return
        fi
    done
}

# Major version of the server that is here, else of the one that Debian's package would bring.
server_major() {
    local server
    server=$(printf '%s\n' /usr/lib/postgresql/*/bin/postgres | sort -V | tail -n 1)
    if [ -x "$server" ]; then
        server=${server%/bin/postgres}
        echo "${server##*/}"
    else
        apt-cache depends postgresql | sed -n 's/^ *Depends: postgresql-\([0-9][0-9]*\)$/\1/p' | head -n 1
    fi
}

missing_packages() {
    local package
    if [ -z "$(fitting_major)" ]; then
        installed postgresql || ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || echo postgresql
        echo "postgresql-plpython3-$(server_major)"
    fi
    for package in python3-venv dataset-fashion-mnist; do
        installed "$package" || echo "$package"
    done
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

apt() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -y -o DPkg::Lock::Timeout=300 "$@"; }

install_packages() {
    local packages
    packages=$(missing_packages)
    [ -n "$packages" ] || return 0
    packages=$(echo "$packages" | tr '\n' ' ')
    command -v apt-get >/dev/null || fail "no apt-get here; install what stands for Debian's: $packages"
    [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null ||
        fail "not root and no sudo; ask an administrator to run: apt-get install $packages"
    step "package lists" apt update
    packages=$(missing_packages | tr '\n' ' ')  # the lists may only now tell the server's version
    # shellcheck disable=SC2086
    step "Debian packages: $packages" apt install --no-install-recommends $packages
}

# -- the virtual environment

make_environment() {
    local linked python=/usr/bin/python3
    linked=$(linked_minor "/usr/lib/postgresql/$(fitting_major)/lib/plpython3.so")
    [ "$(minor_of $python)" = "$linked" ] || python=/usr/bin/python$linked
    [ -x "$python" ] ||
        fail "plpython3 embeds Python $linked, and $python is not here; /usr/bin/python3 is $(minor_of /usr/bin/python3)"
    if [ "$(minor_of "$venv/bin/python")" != "$linked" ]; then
        step "virtual environment of Python $linked in $venv" "$python" -m venv --clear "$venv"
    fi
}

pip() { "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@"; }

has_torch() { compgen -G "$venv/lib/python*/site-packages/torch-${TORCH:-*}*.dist-info" >/dev/null; }

# What the installed package is made of; a change of it installs again.
contents() {
    (cd "$here" && find cerebro_db sql udfs pyproject.toml -type f ! -name '*.pyc' -print0 |
        sort -z | xargs -0 sha256sum | sha256sum)
}

install_package() {
    local now
    now=$(contents)
    [ "$now" != "$(cat "$venv/.cerebro-contents" 2>/dev/null)" ] || return 0
    # Not editable: the server's user may not be able to read a checkout.
    step "cerebro-db" pip "${here}[dev,flights]"
    echo "$now" >"$venv/.cerebro-contents"
}

mkdir -p "$CEREBRO_HOME"
exec 9>"$CEREBRO_HOME/setup.lock"
flock 9
install_packages
make_environment
has_torch || step "torch $torch" pip "torch==$torch"
install_package
echo "setup: ready in $SECONDS s, $venv"
