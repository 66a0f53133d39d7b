-- keys_of_segments --
-- The __dist_key__ of each of so many segments, in order: segment i lands on primary i modulo their number.
select 0 as key;

-- content --
-- The number of the instance that holds row p of a table.
p.gp_segment_id;

-- running --
-- Transactions that have written something and are not over, as each segment counts them.
select l.gp_segment_id as content, l.transactionid::text::bigint as xid
  from pg_catalog.pg_locks l where l.locktype = 'transactionid';

-- page_format --
-- How the server lays out its files. Version 6 tells neither the size of chunks nor the alignment: the first is read
-- from the files, the second is seen from where a number is put behind a letter.
select pg_catalog.current_setting('block_size')::integer as block_size
     , (select s.setting::integer from pg_catalog.pg_settings s where s.name = 'segment_size') as segment_blocks
     , 0 as chunk_size
     , pg_catalog.pg_column_size(row('a'::"char", 1::float8)) - pg_catalog.pg_column_size(row(1::float8)) as max_align
     , 14 as page_version, 20 as pointer_bytes, true as network_order;

-- page_table --
-- What kind a table is, how it is stored, and whether the caller may read every row of it; version 6 has a column
-- for the storage where 7 has access methods.
select c.relkind::text as kind, c.relpersistence::text as persistence
     , coalesce(a.amname::text, case pg_catalog.row_to_json(c) ->> 'relstorage'
                                when 'h' then 'heap' when 'a' then 'ao_row' when 'c' then 'ao_column' else 'other' end) as method
     , pg_catalog.has_table_privilege(c.oid, 'select') as may_read
     , not cerebro_private.reads_all_rows(c.oid) as row_security, coalesce(p.policytype = 'r', false) as replicated
  from pg_catalog.pg_class c
  left join pg_catalog.pg_am a on a.oid = c.relam
  left join pg_catalog.gp_distribution_policy p on p.localoid = c.oid
 where c.oid = %(table)s::text::regclass;

-- page_files --
-- Files of a table and of its TOAST relation, in each instance, from its data directory.
select c.gp_segment_id as content, pg_catalog.pg_relation_filepath(c.oid) as heap
     , pg_catalog.pg_relation_filepath(nullif(c.reltoastrelid, 0)) as toast, c.reltoastrelid::bigint as toast_oid
  from gp_dist_random('pg_catalog.pg_class') c where c.oid = %(table)s::text::regclass;

-- export_table --
-- What tells one table from all others of this server, whether its rows can be told apart by version and may be read.
-- An append-only table has no versions that tell a change, a replicated one shows none.
select pg_catalog.version() as version, d.oid::bigint as database_oid, d.datname::text as database
     , c.oid::bigint as table_oid, f.filenodes as filenode
     , c.relkind in ('r', 'm')
       and coalesce(a.amname = 'heap', pg_catalog.row_to_json(c) ->> 'relstorage' = 'h') as is_plain
     , c.relpersistence = 't' as is_temporary, coalesce(p.policytype <> 'r', true) as has_versions
     , pg_catalog.has_table_privilege(c.oid, 'select') as may_read
     , s.hostname::text || s.datadir::text as address, s.port::text as port
  from pg_catalog.pg_class c
 cross join pg_catalog.pg_database d
 cross join (select string_agg(n.gp_segment_id || ':' || n.relfilenode, ' ' order by n.gp_segment_id) as filenodes
               from gp_dist_random('pg_catalog.pg_class') n where n.oid = %(table)s::text::regclass) f
  join pg_catalog.gp_segment_configuration s on s.content = -1 and s.role = 'p'
  left join pg_catalog.gp_distribution_policy p on p.localoid = c.oid
  left join pg_catalog.pg_am a on a.oid = c.relam
 where c.oid = %(table)s::text::regclass and d.datname = pg_catalog.current_database();
