-- Every combination of models, compile parameters and fit parameters, as a new table of configs.
create or replace function cerebro.load_model_selection_table(
    model_arch_table text
  , model_selection_table text
  , model_id_list integer[]
  , compile_params_list varchar[]
  , fit_params_list varchar[]
) returns void
language plpython3u volatile as $python$
    from cerebro_db.server import selection
    lists = (model_id_list, compile_params_list, fit_params_list)
    return selection.load_model_selection_table(plpy, model_arch_table, model_selection_table, *lists)
$python$;
comment on function cerebro.load_model_selection_table(text, text, integer[], varchar[], varchar[]) is
    'Makes a table of configs out of every combination of three lists, and its _summary.';
revoke all on function cerebro.load_model_selection_table(text, text, integer[], varchar[], varchar[]) from public;
grant execute on function cerebro.load_model_selection_table(text, text, integer[], varchar[], varchar[])
    to cerebro_user;
