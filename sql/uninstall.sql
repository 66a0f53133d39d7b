-- Removes cerebro-db from the current database: every run and the state of unfinished ones with it.
-- Users' own tables (packed data, models, outputs) and the roles stay.
\set ON_ERROR_STOP on
begin;
set local client_min_messages = warning;

drop extension if exists cerebro cascade;
drop schema if exists cerebro cascade;
drop schema if exists cerebro_private cascade;

do $body$
declare
    kept text := (
        select regexp_replace(substr(c.line, 13), '(^|, *)cerebro$', '')
          from pg_catalog.pg_db_role_setting s
          join pg_catalog.pg_database d on d.oid = s.setdatabase
         cross join lateral unnest(s.setconfig) as c (line)
         where d.datname = current_database() and s.setrole = 0 and c.line like 'search_path=%');
begin
    if kept in ('"$user", public', '') then
        execute format('alter database %I reset search_path', current_database());
    elsif kept is not null then
        execute format('alter database %I set search_path = %s', current_database(), kept);
    end if;
end
$body$;
commit;
