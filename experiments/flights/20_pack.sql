-- Columns of numbers are standardised, words get a vocabulary. Cancelled flights have no label, some
-- no departure: "nulls": "drop" leaves such rows out and says how many.
select training_preprocessor_dl('flights_train', 'flights_train_packed', 'late',
    'month, day, weekday, sched_dep_minute, sched_arr_minute, dep_delay, distance, carrier, origin, dest',
    options := '{"nulls": "drop"}');

select validation_preprocessor_dl('flights_test', 'flights_test_packed', 'late',
    'month, day, weekday, sched_dep_minute, sched_arr_minute, dep_delay, distance, carrier, origin, dest',
    'flights_train_packed');

select output_table, rows, nulls, dropped_rows from flights_train_packed_summary
 union all
select output_table, rows, nulls, dropped_rows from flights_test_packed_summary;
