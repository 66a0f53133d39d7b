-- table --
-- What tells one table from all others of this server, whether its rows can be told apart by version and may be read.
select pg_catalog.current_setting('server_version_num')::integer as number, pg_catalog.version() as version
     , d.oid::bigint as database_oid, d.datname::text as database
     , c.oid::bigint as table_oid, pg_catalog.pg_relation_filenode(c.oid)::bigint as filenode
     , c.relkind in ('r', 'm') as is_plain, c.relpersistence = 't' as is_temporary
     , pg_catalog.has_table_privilege(c.oid, 'select') as may_read
     , coalesce(pg_catalog.inet_server_addr()::text, 'local') as address
     , pg_catalog.current_setting('port') as port
  from pg_catalog.pg_class c cross join pg_catalog.pg_database d
 where c.oid = %(table)s::text::regclass and d.datname = pg_catalog.current_database();

-- may_identify --
-- Whether the caller may ask which cluster this is; servers since 9.6 can be asked.
select pg_catalog.has_function_privilege('pg_catalog.pg_control_system()', 'execute') as allowed;

-- cluster --
-- Which cluster this is, for ever; copies and standbys of it are the same.
select s.system_identifier::text as identifier from pg_catalog.pg_control_system() s;
