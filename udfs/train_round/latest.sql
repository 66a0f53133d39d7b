-- On Greenplum, a round: one statement trains a config on every segment; states and events are in its transaction.
create or replace function cerebro_private.train_round(run_id integer, hops text) returns text
language plpython3u volatile as $python$
    from cerebro_db.server import training
    return training.train_round(plpy, GD, run_id, hops)
$python$;
comment on function cerebro_private.train_round(integer, text) is
    'Train hops (JSON: mst_key, epoch, segment_id, last), one on each segment that this session has opened; gives what became of each as JSON.';
revoke all on function cerebro_private.train_round(integer, text) from public;
grant execute on function cerebro_private.train_round(integer, text) to cerebro_user;
