-- Remove a run with its states and history; the tables it wrote stay.
create or replace function cerebro.madlib_mop_forget(run_id integer) returns void
language plpython3u volatile as $python$
    from cerebro_db.server import fit
    fit.forget(plpy, run_id)
$python$;
comment on function cerebro.madlib_mop_forget(integer) is
    'Remove a run that nobody will resume: its states, hops and events. Output tables stay.';
revoke all on function cerebro.madlib_mop_forget(integer) from public;
grant execute on function cerebro.madlib_mop_forget(integer) to cerebro_user;
