-- What strategy direct asks of the server beside what everyone may: the data directory, and a checkpoint.
-- They are told and done only for a table of which the caller may read every row. What that gives away is
-- the path of the data directory, of use to those only whom the operating system lets in there; and work for the
-- server, as any caller can make by writing.

create or replace function cerebro_private.reads_all_rows(packed oid) returns boolean
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $body$
declare
    asker name := cerebro_private.caller();
begin
    return exists (
        select 1 from pg_class c cross join pg_roles r
         where c.oid = $1 and c.relkind in ('r', 'm') and r.rolname = asker
           and has_table_privilege(r.oid, c.oid, 'select')
           and (not c.relrowsecurity or r.rolsuper or r.rolbypassrls
                or (pg_has_role(r.oid, c.relowner, 'usage') and not c.relforcerowsecurity)));
end
$body$;
comment on function cerebro_private.reads_all_rows(oid) is 'Whether the caller may read every row of a table, past row security too.';

create or replace function cerebro_private.page_facts(packed oid)
returns table (data_directory text, may_checkpoint boolean, owner name)
language plpgsql stable :on_coordinator security definer set search_path = pg_catalog, pg_temp as $body$
begin
    return query
    select case when cerebro_private.reads_all_rows($1)
                then (select s.setting from pg_settings s where s.name = 'data_directory') end
         , r.rolsuper or exists (select 1 from pg_roles p
                                  where p.rolname = 'pg_checkpoint' and pg_has_role(p.oid, 'usage'))
         , r.rolname
      from pg_roles r where r.rolname = current_user;
end
$body$;
comment on function cerebro_private.page_facts(oid) is
    'Where the server keeps a table that the caller may read, and whether the owner of these functions may checkpoint.';

create or replace function cerebro_private.write_pages(packed oid) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $body$
begin
    if not cerebro_private.reads_all_rows($1) then
        raise exception 'not every row of table % may be read by role %', $1::regclass, cerebro_private.caller()
              using errcode = 'insufficient_privilege';
    end if;
    checkpoint;
end
$body$;
comment on function cerebro_private.write_pages(oid) is 'Have the files of a table that the caller may read say what memory says.';
