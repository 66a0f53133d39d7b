-- The hop: one config visits this session's segment; state and event are in this statement's transaction.
create or replace function cerebro_private.train_hop(
    run_id integer, mst_keys integer[], epoch integer, segment_id integer, last boolean) returns text
language plpython3u volatile as $python$
    from cerebro_db.server import training
    return training.train_hop(plpy, GD, run_id, mst_keys, epoch, segment_id, last)
$python$;
comment on function cerebro_private.train_hop(integer, integer[], integer, integer, boolean) is
    'Train a config, or several as one, over one segment in one epoch; gives seconds and those that diverged as JSON. last: validate after it.';
revoke all on function cerebro_private.train_hop(integer, integer[], integer, integer, boolean) from public;
grant execute on function cerebro_private.train_hop(integer, integer[], integer, integer, boolean) to cerebro_user;
