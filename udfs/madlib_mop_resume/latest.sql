-- Finish a run that was killed, cancelled or failed; no finished hop runs again.
create or replace function cerebro.madlib_mop_resume(
    inout run_id integer
  , out status text
  , out configs integer
  , out best_mst_key integer
  , out best_metric double precision
  , out seconds double precision)
language plpython3u volatile as $python$
    from cerebro_db.server import fit
    return fit.resume(plpy, run_id)
$python$;
comment on function cerebro.madlib_mop_resume(integer) is
    'Go on with an interrupted run from its last committed hops to the same result, then write its outputs.';
revoke all on function cerebro.madlib_mop_resume(integer) from public;
grant execute on function cerebro.madlib_mop_resume(integer) to cerebro_user;
