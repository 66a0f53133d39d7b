-- Who may do what, set last so that it covers everything: PUBLIC nothing, cerebro_user the work.

revoke all on schema cerebro, cerebro_private from public;
revoke all on all tables in schema cerebro, cerebro_private from public;
revoke all on all sequences in schema cerebro_private from public;
revoke all on all functions in schema cerebro, cerebro_private from public;

-- Functions of schema cerebro are granted one by one where they are written. Those of cerebro_private
-- run with the caller's rights or check the owner of the run themselves.
grant usage on schema cerebro, cerebro_private to cerebro_user;
grant select on all tables in schema cerebro to cerebro_user;
grant execute on all functions in schema cerebro_private to cerebro_user;

-- Every new session of this database finds the functions by their bare names.
do $body$
declare
    present text := coalesce((
        select substr(c.line, 13)
          from pg_catalog.pg_db_role_setting s
          join pg_catalog.pg_database d on d.oid = s.setdatabase
         cross join lateral unnest(s.setconfig) as c (line)
         where d.datname = current_database() and s.setrole = 0 and c.line like 'search_path=%'), '"$user", public');
begin
    if present in ('', '""') then
        execute format('alter database %I set search_path = cerebro', current_database());
    elsif present !~ '(^|, *)cerebro *(,|$)' then
        execute format('alter database %I set search_path = %s, cerebro', current_database(), present);
    end if;
end
$body$;
