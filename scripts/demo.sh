#!/bin/bash
# The main demo: 16 configs on Fashion-MNIST, trained inside the database, from raw rows to predictions.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/job.sh
. scripts/job.sh experiments/demo

step "Load Fashion-MNIST: 60,000 images to train on, 10,000 to test"
cerebro-db load fashion-mnist --dsn "$dsn"

step "Drop what an earlier demo made"
sql 10_drop.sql

step "Pack"
sql 20_pack.sql

step "Make 16 configs"
sql 30_configs.sql

step "Train them, 2 epochs, with validation; Ctrl-C stops, 'cerebro-db resume' goes on"
train fashion_train_packed fashion_models fashion_configs --echo \
    --iterations 2 --validation fashion_test_packed --name 'Fashion-MNIST demo'
client 70_client.sql

step "Leaderboard"
sql 50_leaderboard.sql

step "Predict"
sql 60_predict.sql

step "Report"
report fashion_models fashion-mnist
