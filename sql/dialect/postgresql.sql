-- keys_of_segments --
-- The __dist_key__ of each of so many segments, in order: any number is a place of its own.
select s.key from generate_series(0, %(segments)s::integer - 1) as s (key) order by 1;

-- heap --
-- What CREATE TABLE says after its columns, and before AS: nothing here.

-- distributed --
-- Where the rows of a table live, at the end of CREATE TABLE: PostgreSQL has one place.

-- replicated --
-- The same for a small table that every segment has a copy of.

-- server_version --
-- Version of the server as its users say it.
select current_setting('server_version') as version;

-- primaries --
-- The segments' processes, where they are and whether they are up: PostgreSQL has none.
select 0 as segment, '' as host, 0 as port, '' as folder, true as up where false;

-- facts_on_segments --
-- What the process of every segment finds on its host.
select 0 as segment, '' as facts where false;

-- default_segments --
-- Segments where nobody says: the setting cerebro.segments, NULL without one; and whether the server can be asked
-- for its processors.
select nullif(pg_catalog.current_setting('cerebro.segments', true), '') as segments, null::integer as primaries
     , exists (select 1 from pg_catalog.pg_proc p
                 join pg_catalog.pg_namespace n on n.oid = p.pronamespace
                where n.nspname = 'cerebro_private' and p.proname = 'cpu_count') as counts;

-- row_places --
-- Whether scans of a table can tell its rows apart, whether it is made up of others, whether its rows have versions,
-- which those of append-only tables do not write down, and what changes when all of them are written anew.
select true as told, false as parted, c.relkind in ('r', 'm') as versioned, false as appended, c.oid::text as identity
  from pg_catalog.pg_class c where c.oid = %(table)s::text::regclass;

-- copy_rows --
-- A copy of rows that cannot be told apart; not needed here.
create temporary table {copy} as select {columns} from {source};

-- row_versions --
-- Count of row versions with a hash over them that does not depend on their order.
select count(*) as rows, coalesce(sum(hashtext(t.ctid::text || ':' || t.xmin::text)::bigint), 0)::text as hash
  from {table} t;

-- some_elements --
-- Range of the elements of an integer array in its first rows; a guess that packing verifies.
select min(e.value) as smallest, max(e.value) as largest
  from (select {column} as items from {table} as source where {keep} limit 200) as s
 cross join lateral unnest(s.items) as e (value);

-- shuffle_number --
-- A row's random number, from 0 to below 1: the next of the session.
random();

-- pack --
-- Give each row the random number of its place in the scan, sort once, concatenate each buffer.
-- The sort keys stand first, so that comparing two rows does not walk over their bytes.
insert into {packed} ({columns}, buffer_id, __dist_key__)
select {aggregates}, b.buffer_id, b.buffer_id / %(buffers_per_segment)s::integer
  from (select {buffer} as buffer_id, s.shuffle, {encoded}
          from (select {number} as shuffle, {inner} from {table} as source {beside}
                 where {keep} offset 0) as s
               {joins}
         order by buffer_id, s.shuffle offset 0) as b
 group by b.buffer_id;

-- count_segments --
-- Rows of each segment of a packed table, from the shapes of its buffers; reads no bytes.
select t.__dist_key__ as segment_id, t.__dist_key__ as dist_key, sum(t.{shape}[1])::bigint as rows
  from {table} t group by 1, 2 order by 1;

-- randomly --
-- The same for a table that no column can spread.

-- has_hash --
-- Whether rows can be spread by a column.
select false as hashed;

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

-- is_everywhere --
-- Whether a function that runs where another table's rows are can read this table: there is one place only.
select true as everywhere;

-- copy_everywhere --
-- A copy of a table, for this session, that such a function can read.
create temporary table cerebro_validation as select * from {table};

-- pages --
-- Pages of a plain heap table that can be read in ranges of pages (from PostgreSQL 14), else no row.
select pg_catalog.pg_relation_size(c.oid) / pg_catalog.current_setting('block_size')::integer as pages
  from pg_catalog.pg_class c join pg_catalog.pg_am a on a.oid = c.relam
 where c.oid = %(table)s::text::regclass and a.amname = 'heap' and c.relkind in ('r', 'm')
   and not c.relhassubclass and not c.relrowsecurity
   and pg_catalog.current_setting('server_version_num')::integer >= 140000;

-- has_endpoints --
-- Whether rows can be fetched from where they lie, past the server that was asked: there is one server.
select false as useful;
