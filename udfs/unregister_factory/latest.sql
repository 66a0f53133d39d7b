-- Take a function off the list of those that architectures may name.
create or replace function cerebro.unregister_factory(factory text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $body$
begin
    delete from cerebro_private.factory f where f.factory = $1;
    if not found then
        raise exception 'factory % is not on the list', coalesce(quote_literal($1), 'NULL')
              using errcode = 'undefined_object';
    end if;
end
$body$;
comment on function cerebro.unregister_factory(text) is 'Take a factory off the list; for cerebro_admin.';
revoke all on function cerebro.unregister_factory(text) from public;
grant execute on function cerebro.unregister_factory(text) to cerebro_admin;
