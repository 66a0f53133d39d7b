-- A training session reads its segment once and keeps the rows between hops.
create or replace function cerebro_private.open_segment(run_id integer, segment_id integer) returns text
language plpython3u volatile as $python$
    from cerebro_db.server import training
    return training.open_segment(plpy, GD, run_id, segment_id)
$python$;
comment on function cerebro_private.open_segment(integer, integer) is 'Read the plan of a run and the rows of a segment into this session.';
revoke all on function cerebro_private.open_segment(integer, integer) from public;
grant execute on function cerebro_private.open_segment(integer, integer) to cerebro_user;
