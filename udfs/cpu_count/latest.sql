-- Processors that the server may use; the number of segments where nobody says.
create or replace function cerebro_private.cpu_count() returns integer
language plpython3u stable as $python$
    from cerebro_db.server import packing
    return packing.cpu_count()
$python$;
comment on function cerebro_private.cpu_count() is 'Processors that the server''s processes may use.';
revoke all on function cerebro_private.cpu_count() from public;
grant execute on function cerebro_private.cpu_count() to cerebro_user;
