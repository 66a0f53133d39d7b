#!/bin/bash
# Makes the key pair of a cluster of containers, once: the folder is a volume that lives as long as the cluster.
set -euo pipefail
umask 077
folder=${1:-/run/cerebro-ssh}
[ -s "$folder/id_rsa" ] || ssh-keygen -q -t rsa -b 4096 -N '' -C cerebro -f "$folder/id_rsa"
