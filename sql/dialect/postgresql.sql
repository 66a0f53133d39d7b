-- keys_of_segments --
-- The __dist_key__ of each of so many segments, in order: any number is a place of its own.
select s.key from generate_series(0, %(segments)s::integer - 1) as s (key) order by 1;

-- content --
-- The number of the instance that holds row p of a table: there is one.
0;

-- running --
-- Transactions that have written something and are not over.
select 0 as content, l.transactionid::text::bigint as xid
  from pg_catalog.pg_locks l where l.locktype = 'transactionid';

-- page_format --
-- How the server lays out its files.
select i.database_block_size as block_size, i.blocks_per_segment as segment_blocks
     , i.max_toast_chunk_size as chunk_size, i.max_data_alignment as max_align
     , 4 as page_version, 18 as pointer_bytes, false as network_order
  from pg_catalog.pg_control_init() i;

-- page_table --
-- What kind a table is, how it is stored, and whether the caller may read every row of it.
select c.relkind::text as kind, c.relpersistence::text as persistence, coalesce(a.amname, 'heap')::text as method
     , pg_catalog.has_table_privilege(c.oid, 'select') as may_read
     , pg_catalog.row_security_active(c.oid) as row_security, false as replicated
  from pg_catalog.pg_class c
  left join pg_catalog.pg_am a on a.oid = c.relam
 where c.oid = %(table)s::text::regclass;

-- page_files --
-- Files of a table and of its TOAST relation, in each instance, from its data directory.
select 0 as content, pg_catalog.pg_relation_filepath(c.oid) as heap
     , pg_catalog.pg_relation_filepath(nullif(c.reltoastrelid, 0)) as toast, c.reltoastrelid::bigint as toast_oid
  from pg_catalog.pg_class c where c.oid = %(table)s::text::regclass;

-- export_table --
-- What tells one table from all others of this server, whether its rows can be told apart by version and may be read.
select pg_catalog.version() as version, d.oid::bigint as database_oid, d.datname::text as database
     , c.oid::bigint as table_oid, pg_catalog.pg_relation_filenode(c.oid)::text as filenode
     , c.relkind in ('r', 'm') as is_plain, c.relpersistence = 't' as is_temporary, true as has_versions
     , pg_catalog.has_table_privilege(c.oid, 'select') as may_read
     , coalesce(pg_catalog.inet_server_addr()::text, 'local') as address
     , pg_catalog.current_setting('port') as port
  from pg_catalog.pg_class c cross join pg_catalog.pg_database d
 where c.oid = %(table)s::text::regclass and d.datname = pg_catalog.current_database();
