-- The list of code that architectures may name.

create or replace function cerebro_private.factories() returns setof text
language sql stable security definer set search_path = pg_catalog, pg_temp as $sql$
    select f.factory from cerebro_private.factory f order by 1
$sql$;
comment on function cerebro_private.factories() is 'Factories that an administrator has put on the list.';
