-- Every object that the installation makes, one line each. After a wanted change of a signature:
--   psql -AtXq -f tests/database/contents.sql "$(cerebro-db dsn)" > tests/database/contents.expected
select o.line from (
select format('%s %I.%I(%s) returns %s%s%s'
             , 'function', n.nspname, p.proname, pg_catalog.pg_get_function_arguments(p.oid)
             , pg_catalog.pg_get_function_result(p.oid)
             -- On Greenplum a file tells the identifier, which a superuser reads; on PostgreSQL a function.
             , case when p.prosecdef and p.proname <> 'system_identifier' then ' security definer' else '' end
             , case when p.proretset then ' set' else '' end) as line
  from pg_catalog.pg_proc p
  join pg_catalog.pg_namespace n on n.oid = p.pronamespace
 where n.nspname in ('cerebro', 'cerebro_private')
 union all
select format('%s %I.%I(%s)'
             , case c.relkind when 'r' then 'table' when 'v' then 'view' when 'S' then 'sequence' else c.relkind::text end
             , n.nspname, c.relname
             , (select string_agg(format('%I %s%s', a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod)
                                        , case when a.attnotnull then ' not null' else '' end)
                                 , ', ' order by a.attnum)
                  from pg_catalog.pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
                   and c.relkind <> 'S'))
  from pg_catalog.pg_class c
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
 where n.nspname in ('cerebro', 'cerebro_private') and c.relkind not in ('i', 't') and c.relname !~ '^state_\d+_\d+$') o
 order by o.line collate "C";
