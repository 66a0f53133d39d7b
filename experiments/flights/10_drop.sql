-- The library never overwrites a table: the demo drops what an earlier demo made.
drop table if exists flights_train_packed, flights_train_packed_summary
                   , flights_test_packed, flights_test_packed_summary
                   , flights_arch, flights_configs, flights_configs_summary
                   , flights_models, flights_models_info, flights_models_summary
                   , flights_evaluated, flights_predicted;
drop view if exists flights_known;
