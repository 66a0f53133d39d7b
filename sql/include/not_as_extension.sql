-- Where an extension is, its own script brings it up to date: what stood beside it would not be part of it.

do $body$
begin
    if exists (select 1 from pg_catalog.pg_extension e where e.extname = 'cerebro') then
        raise exception 'database % has cerebro-db as an extension', quote_ident(current_database())
              using errcode = 'duplicate_object'
                  , hint = 'bring it up to date: alter extension cerebro update; or remove it with its runs:'
                        || ' drop extension cerebro cascade';
    end if;
end
$body$;
