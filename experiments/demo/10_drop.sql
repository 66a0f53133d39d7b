-- The library never overwrites a table: the demo drops what an earlier demo made.
drop table if exists fashion_train_packed, fashion_train_packed_summary
                   , fashion_test_packed, fashion_test_packed_summary
                   , fashion_arch, fashion_configs, fashion_configs_summary
                   , fashion_models, fashion_models_info, fashion_models_summary
                   , fashion_evaluated, fashion_predicted;
