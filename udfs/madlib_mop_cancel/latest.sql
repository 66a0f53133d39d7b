-- End a run of another session; its finished hops are kept and can be resumed.
create or replace function cerebro.madlib_mop_cancel(run_id integer) returns boolean
language plpython3u volatile as $python$
    from cerebro_db.server import fit
    return fit.cancel(plpy, run_id)
$python$;
comment on function cerebro.madlib_mop_cancel(integer) is 'Cancel a running run; madlib_mop_resume can finish it later.';
revoke all on function cerebro.madlib_mop_cancel(integer) from public;
grant execute on function cerebro.madlib_mop_cancel(integer) to cerebro_user;
