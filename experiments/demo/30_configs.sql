-- Two architectures, and every combination of three hyper-parameters: 16 configs.
select load_model_arch('fashion_arch', '{"model": "mlp", "hidden": [128]}', name := 'mlp');

select load_model_arch('fashion_arch',
    '{"model": "cnn", "channels": [16, 32], "hidden": 64, "input_shape": [1, 28, 28]}', name := 'cnn');

select generate_model_configs('fashion_arch', 'fashion_configs', array[1, 2],
    $${'loss': ['cross_entropy'], 'metrics': ['accuracy'],
       'optimizer_params_list': [{'optimizer': ['adam'], 'lr': [0.001, 0.0001], 'weight_decay': [0, 0.0001]}]}$$,
    $${'batch_size': [64, 256]}$$);

select count(*) as configs from fashion_configs;
