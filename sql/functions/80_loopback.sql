-- How a backend reaches its own server; only functions in PL/Python ask, and the installer must be a superuser.

create or replace function cerebro_private.loopback()
returns table (socket_directories text, port integer, listen_addresses text, superuser name)
language sql stable :on_coordinator security definer set search_path = pg_catalog, pg_temp as $sql$
    select current_setting('unix_socket_directories'), current_setting('port')::integer
         , current_setting('listen_addresses'), (select rolname from pg_roles where oid = 10)
$sql$;
comment on function cerebro_private.loopback() is 'How a session of this server reaches the server itself.';
