#!/bin/bash
# Starts the image's own entrypoint, which is the arguments. The images put the password that they are given into the
# environment of the server, and one of them into an argument list; they get one that nobody knows. The real one, a
# secret, goes to a file that only the server's user can read, where init_database.sh finds it.
#
#   CEREBRO_OS_USER  the server's user
#   CEREBRO_SECRET   the secret; default: /run/secrets/database_password
#   CEREBRO_HANDED   the folder of that file, in memory; default: /run/cerebro
set -euo pipefail
secret=${CEREBRO_SECRET:-/run/secrets/database_password}
handed=${CEREBRO_HANDED:-/run/cerebro}
keys=/run/cerebro-ssh

fail() {
    echo "cerebro: $*" >&2
    exit 1
}

hand_password() {
    [ -s "$secret" ] || fail "the secret database_password is empty or missing; docker/README.md says how to make it"
    [ "$(wc -l <"$secret")" -le 1 ] || fail "the secret database_password has more than one line"
    install -d -m 700 -o "$CEREBRO_OS_USER" "$handed"
    install -m 400 -o "$CEREBRO_OS_USER" "$secret" "$handed/password"
    POSTGRES_PASSWORD=$(head -c 24 /dev/urandom | base64)
    export POSTGRES_PASSWORD GREENPLUM_PASSWORD=$POSTGRES_PASSWORD
}

# The key pair of this cluster: the coordinator logs in on the hosts of segments.
hand_keys() {
    local home=/home/$CEREBRO_OS_USER/.ssh
    if [ "$GREENPLUM_DEPLOYMENT" = segment ]; then
        install -m 644 "$keys/id_rsa.pub" /tmp/authorized_keys # from where the image takes it
    else
        install -d -m 700 -o "$CEREBRO_OS_USER" "$home"
        install -m 600 -o "$CEREBRO_OS_USER" "$keys/id_rsa" "$keys/id_rsa.pub" "$home"
    fi
}

[ "$(id -u)" -eq 0 ] || fail "the container must start as root; the server itself runs as $CEREBRO_OS_USER"
[ "${GREENPLUM_DEPLOYMENT:-}" = segment ] || hand_password
[ ! -d "$keys" ] || hand_keys
exec "$@"
