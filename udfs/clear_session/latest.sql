-- A training session that is kept for its caller's next run forgets this one.
create or replace function cerebro_private.clear_session() returns void
language plpython3u volatile as $python$
    from cerebro_db.server import training
    return training.clear_session(plpy, GD)
$python$;
comment on function cerebro_private.clear_session() is 'Let go of the rows and modules that runs have left in this session.';
revoke all on function cerebro_private.clear_session() from public;
grant execute on function cerebro_private.clear_session() to cerebro_user;
