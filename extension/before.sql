-- What stands first in the extension's script. Nothing of the two schemas may be there: what psql or
-- cerebro-db install has made would become neither part of the extension nor be left alone by it.

do $body$
begin
    if exists (select 1 from pg_catalog.pg_namespace n where n.nspname in ('cerebro', 'cerebro_private')) then
        raise exception 'database % has cerebro-db already, installed without create extension', quote_ident(current_database())
              using errcode = 'duplicate_object'
                  , hint = 'keep it, and upgrade it by: cerebro-db install; or remove it with its runs first:'
                        || ' psql -f sql/uninstall.sql';
    end if;
end
$body$;
