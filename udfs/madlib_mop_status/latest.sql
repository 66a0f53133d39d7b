-- How far a run is, or all the caller's runs.
create or replace function cerebro.madlib_mop_status(
    inout run_id integer default null
  , out name text
  , out status text
  , out hops_done bigint
  , out hops_total bigint
  , out percent double precision
  , out seconds double precision
  , out seconds_left double precision
  , out rows_per_second double precision
  , out best_mst_key integer
  , out best_metric double precision
  , out best_loss double precision
  , out error text)
returns setof record
language plpython3u stable as $python$
    from cerebro_db.server import fit
    return fit.status(plpy, run_id)
$python$;
comment on function cerebro.madlib_mop_status(integer) is
    'Status, hops, rows/s, seconds left and the best config so far; without an argument, of all the caller''s runs.';
revoke all on function cerebro.madlib_mop_status(integer) from public;
grant execute on function cerebro.madlib_mop_status(integer) to cerebro_user;
