-- find --
-- A relation that holds rows, by name; without a schema the search path decides, as in SQL.
select n.nspname::text as schema, c.relname::text as name
  from pg_catalog.pg_class c
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
 where c.relname::text = %(name)s and c.relkind in ('r', 'v', 'm', 'p', 'f')
   and case when %(schema)s::text is null then pg_catalog.pg_table_is_visible(c.oid)
            when %(schema)s = 'pg_temp' then n.oid = pg_catalog.pg_my_temp_schema()
            else n.nspname::text = %(schema)s end;

-- visible_names --
-- Relations that hold rows in one schema, or in all that the search path shows; for guesses.
select distinct c.relname::text as name
  from pg_catalog.pg_class c
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
 where c.relkind in ('r', 'v', 'm', 'p', 'f') and n.nspname <> 'pg_catalog'
   and case when %(schema)s::text is null then pg_catalog.pg_table_is_visible(c.oid)
            else n.nspname::text = %(schema)s end
 limit 5000;

-- target_schema --
-- Where a new table goes: the schema named, else the first of the search path that exists.
select t.schema, n.oid is not null or t.schema = 'pg_temp' as exists
     , coalesce(pg_catalog.has_schema_privilege(n.oid, 'create'), t.schema = 'pg_temp') as may_create
     , pg_catalog.current_setting('max_identifier_length')::integer as name_bytes
     , current_user::text as role
  from (select coalesce(%(schema)s::text, pg_catalog.current_schema()::text) as schema) t
  left join pg_catalog.pg_namespace n on n.nspname::text = t.schema;

-- taken --
-- Which of some names a new table may not take in a schema: relations of any kind, and types.
select distinct u.name
  from (select c.relname::text as name, c.relnamespace as schema from pg_catalog.pg_class c
         union all
        select t.typname::text, t.typnamespace from pg_catalog.pg_type t) u
  join pg_catalog.pg_namespace n on n.oid = u.schema
 where u.name = any(%(names)s::text[])
   and case when %(schema)s = 'pg_temp' then n.oid = pg_catalog.pg_my_temp_schema()
            else n.nspname::text = %(schema)s end
 order by 1;

-- columns --
-- The columns of a relation in order, with their types as SQL writes them.
select a.attname::text as name, pg_catalog.format_type(a.atttypid, a.atttypmod) as type
  from pg_catalog.pg_attribute a
 where a.attrelid = %(table)s::text::regclass and a.attnum > 0 and not a.attisdropped
 order by a.attnum;
