-- Let architectures name a function of an installed package: {"factory": "package.module:function"}.
create or replace function cerebro.register_factory(factory text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $body$
begin
    if $1 is null or $1 !~ '^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*$' then
        raise exception 'factory % is not of the form package.module:function', coalesce(quote_literal($1), 'NULL')
              using errcode = 'invalid_parameter_value';
    end if;
    insert into cerebro_private.factory (factory, registered_by)
    select $1, cerebro_private.caller()
     where not exists (select 1 from cerebro_private.factory f where f.factory = $1);
end
$body$;
comment on function cerebro.register_factory(text) is
    'Allow architectures to call package.module:function, which gives a torch.nn.Module; for cerebro_admin.';
revoke all on function cerebro.register_factory(text) from public;
grant execute on function cerebro.register_factory(text) to cerebro_admin;
