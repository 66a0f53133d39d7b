-- How far a run is, or all the caller's runs.
create or replace function cerebro.madlib_mop_status(run_id integer default null)
returns table (
    run integer, name text, status text, hops_done bigint, hops_total bigint, percent double precision
  , seconds double precision, seconds_left double precision, rows_per_second double precision
  , best_mst_key integer, best_metric double precision, best_loss double precision, error text)
language plpython3u stable as $python$
    from cerebro_db.server import fit
    return [dict(row, run=row["run_id"]) for row in fit.status(plpy, run_id)]
$python$;
comment on function cerebro.madlib_mop_status(integer) is
    'Status, hops, rows/s, seconds left and the best config so far; without an argument, of all the caller''s runs.';
revoke all on function cerebro.madlib_mop_status(integer) from public;
grant execute on function cerebro.madlib_mop_status(integer) to cerebro_user;
