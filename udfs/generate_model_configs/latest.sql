-- Configs by grid or random search, as a new table or added to one over the same architectures.
create or replace function cerebro.generate_model_configs(
    model_arch_table text
  , model_selection_table text
  , model_id_list integer[]
  , compile_params_grid text
  , fit_params_grid text
  , search_type text default 'grid'
  , num_configs integer default null
  , random_state integer default null
) returns void
language plpython3u volatile as $python$
    from cerebro_db.server import selection
    tables, grids = (model_arch_table, model_selection_table), (compile_params_grid, fit_params_grid)
    search = (search_type, num_configs, random_state)
    return selection.generate_model_configs(plpy, *tables, model_id_list, *grids, *search)
$python$;
comment on function cerebro.generate_model_configs(text, text, integer[], text, text, text, integer, integer) is
    'Makes or extends a table of configs: every point of a grid, or num_configs points drawn by random_state.';
revoke all on function cerebro.generate_model_configs(text, text, integer[], text, text, text, integer, integer)
    from public;
grant execute on function cerebro.generate_model_configs(text, text, integer[], text, text, text, integer, integer)
    to cerebro_user;
