-- What strategy direct asks of the server beside what everyone may: the data directory, and a checkpoint.
-- They are told and done only for a table of which the caller may read every row. What that gives away is
-- the path of the data directory, of use to those only whom the operating system lets in there; and work for the
-- server, as any caller can make by writing.

create or replace function cerebro_private.reads_all_rows(packed oid) returns boolean
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $body$
declare
    asker name := cerebro_private.caller();
begin
    -- By name, since Greenplum 6 has no row security.
    return exists (
        select 1 from pg_class c cross join pg_roles r cross join lateral row_to_json(c) t cross join lateral row_to_json(r) a
         where c.oid = $1 and c.relkind in ('r', 'm') and r.rolname = asker
           and has_table_privilege(r.oid, c.oid, 'select')
           and (not coalesce((t ->> 'relrowsecurity')::boolean, false)
                or r.rolsuper or (a ->> 'rolbypassrls')::boolean
                or (pg_has_role(r.oid, c.relowner, 'usage') and not (t ->> 'relforcerowsecurity')::boolean)));
end
$body$;
comment on function cerebro_private.reads_all_rows(oid) is 'Whether the caller may read every row of a table, past row security too.';

drop function if exists cerebro_private.page_facts(oid);  -- one of before gave other columns
create function cerebro_private.page_facts(packed oid)
returns table ( content integer, hostname text, data_directory text, identifier bigint, may_checkpoint boolean
              , owner name)
language plpgsql stable :on_coordinator security definer set search_path = pg_catalog, pg_temp as $body$
begin
    return query
    select i.content, i.hostname, case when cerebro_private.reads_all_rows($1) then i.data_directory end, i.identifier
         , r.rolsuper or exists (select 1 from pg_roles p
                                  where p.rolname = 'pg_checkpoint' and pg_has_role(p.oid, 'usage'))
         , r.rolname
      from cerebro_private.instances() i cross join pg_roles r where r.rolname = current_user;
end
$body$;
comment on function cerebro_private.page_facts(oid) is
    'Where each instance keeps its part of a table that the caller may read, and whether the owner of these functions may checkpoint.';

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
