-- What this server has and what it lacks, one row per item. It never fails itself: a package that cannot
-- be imported is a row too, hence the `try` in this one body.
create or replace function cerebro.madlib_mop_check()
returns table (item text, value text, ok boolean, remedy text)
language plpython3u volatile as $python$
    try:
        from cerebro_db.server import check
    except ImportError as error:
        return [("package", str(error), False, "put its folder on the server's PYTHONPATH and restart the server")]
    return check.madlib_mop_check(plpy)
$python$;
comment on function cerebro.madlib_mop_check() is
    'What the server''s host has and lacks for cerebro: interpreter, packages, memory, disk, sessions, roles; with remedies.';
revoke all on function cerebro.madlib_mop_check() from public;
grant execute on function cerebro.madlib_mop_check() to cerebro_user;
