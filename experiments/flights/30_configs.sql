-- Two sizes of one architecture, and every combination of two hyper-parameters: 8 configs.
select load_model_arch('flights_arch', '{"model": "tabular", "hidden": [64, 32]}', name := 'small');

select load_model_arch('flights_arch', '{"model": "tabular", "hidden": [128, 64]}', name := 'large');

select generate_model_configs('flights_arch', 'flights_configs', array[1, 2],
    $${'loss': ['cross_entropy'], 'metrics': ['accuracy'],
       'optimizer_params_list': [{'optimizer': ['adam'], 'lr': [0.001, 0.003]}]}$$,
    $${'batch_size': [256, 1024]}$$);

select count(*) as configs from flights_configs;
