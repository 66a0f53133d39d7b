-- First imports of a training session, so that they overlap with checks.
drop function if exists cerebro_private.warm_up();  -- of an installation before: the place was not asked for
create or replace function cerebro_private.warm_up(packed_table text, dist_key integer) returns text
language plpython3u volatile as $python$
    from cerebro_db.server import training
    return training.warm_up(plpy, packed_table, dist_key)
$python$;
comment on function cerebro_private.warm_up(text, integer) is
    'Import torch and its optimizers where rows of this key will train: in this session, on Greenplum in the segment''s process.';
revoke all on function cerebro_private.warm_up(text, integer) from public;
grant execute on function cerebro_private.warm_up(text, integer) to cerebro_user;
