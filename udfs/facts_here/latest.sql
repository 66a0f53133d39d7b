-- What a process of the server finds on its host; on Greenplum every segment's is asked. As in madlib_mop_check, a
-- package that cannot be imported is an answer too.
create or replace function cerebro_private.facts_here() returns text
language plpython3u volatile as $python$
    try:
        from cerebro_db.server import check
    except ImportError as error:
        return str(error)
    return check.facts_here()
$python$;
comment on function cerebro_private.facts_here() is
    'Interpreter, packages, memory, disk and GPUs as this process finds them, as JSON; else why it cannot say.';
revoke all on function cerebro_private.facts_here() from public;
grant execute on function cerebro_private.facts_here() to cerebro_user;
