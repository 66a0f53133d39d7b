-- What stands first in the extension's script. Nothing of cerebro-db may be there: what psql or cerebro-db install has
-- made would neither become part of the extension nor be left alone by it. Schema cerebro_private itself is there: it is
-- the extension's schema and no part of it, so that pg_dump, also the one of 9.4, keeps the states of runs in it.

do $body$
begin
    if exists (select 1 from pg_catalog.pg_namespace n where n.nspname = 'cerebro') then
        raise exception 'database % has cerebro-db already, installed without create extension', quote_ident(current_database())
              using errcode = 'duplicate_object'
                  , hint = 'keep it, and upgrade it by: cerebro-db install; or remove it with its runs first:'
                        || ' psql -f sql/uninstall.sql';
    end if;
    if exists (select 1 from pg_catalog.pg_class c
                 join pg_catalog.pg_namespace n on n.oid = c.relnamespace
                where n.nspname = 'cerebro_private') then
        raise exception 'schema cerebro_private holds states of runs that an earlier extension left'
              using errcode = 'duplicate_object'
                  , hint = 'nothing can use them: drop schema cerebro_private cascade';
    end if;
end
$body$;
