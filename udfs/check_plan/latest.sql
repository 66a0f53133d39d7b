-- Every config of a planned run is built once, where it will train, before anything is recorded.
create or replace function cerebro_private.check_plan(plan text) returns void
language plpython3u volatile as $python$
    from cerebro_db.server import training
    training.check_plan(plpy, plan)
$python$;
comment on function cerebro_private.check_plan(text) is 'Build every config of a plan (JSON) and push two rows through; raises for the first misfit.';
revoke all on function cerebro_private.check_plan(text) from public;
grant execute on function cerebro_private.check_plan(text) to cerebro_user;
