-- First imports of a training session, so that they overlap with checks.
create or replace function cerebro_private.warm_up() returns text
language plpython3u volatile as $python$
    from cerebro_db.server import training
    return training.warm_up(plpy)
$python$;
comment on function cerebro_private.warm_up() is 'Import torch and its optimizers in this session; gives their versions as JSON.';
revoke all on function cerebro_private.warm_up() from public;
grant execute on function cerebro_private.warm_up() to cerebro_user;
