#!/bin/bash
# The tabular demo: which flights arrive late, by 8 configs over numbers and words, with rows left out for NULL.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/job.sh
. scripts/job.sh experiments/flights

step "Load the flights that left New York in 2013: 303,099 to train on, 33,677 to test"
cerebro-db load flights --dsn "$dsn"

step "Drop what an earlier demo made"
sql 10_drop.sql

step "Pack, without the rows that have a NULL"
sql 20_pack.sql

step "Make 8 configs"
sql 30_configs.sql

step "Train them, 2 epochs, with validation; Ctrl-C stops, 'cerebro-db resume' goes on"
train flights_train_packed flights_models flights_configs --echo \
    --iterations 2 --validation flights_test_packed --name 'Flights demo'

step "Leaderboard"
sql 50_leaderboard.sql

step "Predict"
sql 60_predict.sql

step "Report"
report flights_models flights
