#!/bin/bash
# The main demo: 16 configs on Fashion-MNIST, trained inside PostgreSQL, from raw rows to predictions.
# Needs cerebro-db on the PATH and a server: the embedded one, or another named by CEREBRO_DEMO_DSN.
set -euo pipefail
cd "$(dirname "$0")/.."

dsn=${CEREBRO_DEMO_DSN:-$(cerebro-db dsn)}
reports=${CEREBRO_DEMO_REPORTS:-build}
export PGOPTIONS="${PGOPTIONS:-} -c client_min_messages=warning"

step() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
sql() { psql -X -q -a -v ON_ERROR_STOP=1 -P footer=off "$dsn" -f "experiments/demo/$1"; }

step "Load Fashion-MNIST: 60,000 images to train on, 10,000 to test"
cerebro-db load fashion-mnist --dsn "$dsn"

step "Drop what an earlier demo made"
sql 10_drop.sql

step "Pack"
sql 20_pack.sql

step "Make 16 configs"
sql 30_configs.sql

step "Train them, 2 epochs, with validation; Ctrl-C stops, 'cerebro-db resume' goes on"
cerebro-db fit fashion_train_packed fashion_models fashion_configs --echo \
    --iterations 2 --validation fashion_test_packed --name 'Fashion-MNIST demo' --dsn "$dsn"

step "Leaderboard"
sql 50_leaderboard.sql

step "Predict"
sql 60_predict.sql

step "Report"
mkdir -p "$reports"
run=$(psql -X -q -At "$dsn" -c 'select run_id from fashion_models_summary')
cerebro-db report "$run" --output "$reports/fashion-mnist-run-$run.html" --dsn "$dsn"
