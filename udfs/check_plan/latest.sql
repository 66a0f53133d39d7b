-- Every config of a planned run is built once, where it will train, before anything is recorded.
create or replace function cerebro_private.check_plan(plan text, initial text) returns text
language plpython3u volatile as $python$
    from cerebro_db.server import training
    return training.check_plan(plpy, plan, initial)
$python$;
comment on function cerebro_private.check_plan(text, text) is 'Build every config of a plan (JSON) and push two rows through; raises for the first misfit. Gives the configs to train as one (JSON). initial: shapes of first weights by mst_key (JSON).';
revoke all on function cerebro_private.check_plan(text, text) from public;
grant execute on function cerebro_private.check_plan(text, text) to cerebro_user;
