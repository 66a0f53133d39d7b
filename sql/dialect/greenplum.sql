-- keys_of_segments --
-- The __dist_key__ of each of so many segments, in order: segment i lands on primary i modulo their number.
select k.key
  from unnest(cerebro_private.keys_of_segments(%(segments)s::integer)) with ordinality as k (key, place)
 order by k.place;

-- heap --
-- What CREATE TABLE says after its columns, and before AS: a heap, whatever a default says.
with (appendonly = false)

-- distributed --
-- Where the rows of a table live, at the end of CREATE TABLE: equal values on one segment.
distributed by ({columns})

-- replicated --
-- The same for a small table that every segment has a copy of.
distributed replicated

-- server_version --
-- Version of the server as its users say it.
select split_part(current_setting('gp_server_version'), ' ', 1) as version;

-- primaries --
-- The segments' processes, where they are and whether they are up.
select c.content::integer as segment, c.hostname::text as host, c.port::integer as port, c.datadir::text as folder
     , c.status = 'u' as up
  from pg_catalog.gp_segment_configuration c
 where c.role = 'p' and c.content >= 0
 order by c.content;

-- facts_on_segments --
-- What the process of every segment finds on its host.
select g.gp_segment_id::integer as segment, cerebro_private.facts_here() as facts
  from gp_dist_random('pg_catalog.gp_id') g;

-- default_segments --
-- Segments where nobody says: the setting cerebro.segments, NULL without one, else as many as there are primaries.
select cerebro_private.setting('cerebro.segments') as segments, count(distinct c.content)::integer as primaries
     , false as counts
  from pg_catalog.gp_segment_configuration c where c.content >= 0;

-- row_places --
-- Whether scans of a table can tell its rows apart, whether it is made up of others, whether its rows have versions,
-- which those of append-only tables do not write down, and what changes when all of them are written anew.
with recursive part (oid) as (
    select %(table)s::text::regclass::oid
     union all
    select i.inhrelid from part p join pg_catalog.pg_inherits i on i.inhparent = p.oid
), parts as (
    select count(*) as count, sum(pg_catalog.pg_relation_filenode(c.oid)::bigint) as files, count(a.relid) as appended
         , bool_and(c.relkind in ('r', 'm', 'p')
                    and not exists (select 1 from pg_catalog.pg_exttable x where x.reloid = c.oid)) as stored
      from part p
      join pg_catalog.pg_class c on c.oid = p.oid
      left join pg_catalog.pg_appendonly a on a.relid = c.oid
)
select p.stored and d.policytype is not distinct from 'p' as told, p.count > 1 as parted
     , p.stored and d.policytype is not distinct from 'p' and p.appended in (0, p.count) as versioned
     , p.appended > 0 as appended, (%(table)s::text::regclass::oid) || '/' || p.files as identity
  from parts p left join pg_catalog.gp_distribution_policy d on d.localoid = %(table)s::text::regclass;

-- copy_rows --
-- A copy of rows that cannot be told apart.
create temporary table {copy} with (appendonly = false) as
select {columns} from {source}
distributed randomly;

-- row_versions --
-- Count of row versions with a hash over them that does not depend on their order.
select count(*) as rows
     , coalesce(sum(hashtext(concat(t.gp_segment_id, ':', t.tableoid, ':', t.ctid{version}))::bigint), 0)::text as hash
  from {table} t;

-- some_elements --
-- Range of the elements of an integer array in about 200 rows; a guess that packing verifies.
select min(e.value) as smallest, max(e.value) as largest
  from {table} as source cross join lateral unnest({column}) as e (value)
 where {keep} and {number} < 200.0::float8 / %(rows)s::bigint;

-- shuffle_number --
-- A row's random number, from 0 to below 1: 52 bits of a hash of the seed and of where the row lies.
(('x' || substr(md5(concat(%(shuffle_seed)s::bigint, ' ', source.gp_segment_id, ' ', source.ctid{part})), 1, 13))::bit(52)::bigint
 / 4503599627370496::float8);

-- pack --
-- Number each row, send it to the segment that its buffer will lie on, sort there once, concatenate each buffer.
-- Partitioned by what the table is distributed by, no row moves twice; the window sorts, its numbers do not matter.
insert into {packed} ({columns}, buffer_id, __dist_key__)
select {aggregates}, b.buffer_id, b.dist_key
  from (select e.*, row_number() over (partition by e.dist_key order by e.buffer_id, e.shuffle) as place
          from (select (%(keys)s::integer[])[s.buffer_id / %(buffers_per_segment)s::integer + 1] as dist_key
                     , s.buffer_id, s.shuffle, {encoded}
                  from (select {buffer} as buffer_id, s.*
                          from (select {number} as shuffle, {inner} from {table} as source {beside}
                                 where {keep} offset 0) as s
                        offset 0) as s
                       {joins}
                offset 0) as e) as b
 where b.place > 0
 group by b.dist_key, b.buffer_id;

-- count_segments --
-- Rows of each segment of a packed table, from the shapes of its buffers; reads no bytes. A segment's number tells
-- its primary, and which of the keys there it is.
select ((row_number() over (partition by k.primary_id order by k.dist_key) - 1) * %(primaries)s::integer
        + k.primary_id)::integer as segment_id
     , k.dist_key, k.rows
  from (select t.__dist_key__ as dist_key, t.gp_segment_id as primary_id, sum(t.{shape}[1])::bigint as rows
          from {table} t group by 1, 2) as k
 order by 1;

-- randomly --
-- The same for a table that no column can spread.
distributed randomly

-- has_hash --
-- Whether rows can be spread by a column: its type, or what stands behind that, has a hash.
with recursive behind (type) as (
    select a.atttypid from pg_catalog.pg_attribute a
     where a.attrelid = %(table)s::text::regclass and a.attname = %(column)s::text
     union
    select u.type
      from behind b
      join pg_catalog.pg_type t on t.oid = b.type
     cross join lateral (
           select t.typbasetype where t.typtype = 'd'
            union all
           select 'anyenum'::regtype::oid where t.typtype = 'e'
            union all
           select 'anyarray'::regtype::oid where t.typelem <> 0 and t.typlen = -1
            union all
           select c.casttarget from pg_catalog.pg_cast c
             where c.castsource = t.oid and c.castmethod = 'b' and c.castcontext = 'i') as u (type)
)
select count(*) > 0 as hashed
  from behind b
  join pg_catalog.pg_opclass o on o.opcintype = b.type and o.opcdefault
  join pg_catalog.pg_am m on m.oid = o.opcmethod and m.amname = 'hash';

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

-- is_everywhere --
-- Whether a function that runs where another table's rows are can read this table.
select exists (select 1 from pg_catalog.gp_distribution_policy d
                where d.localoid = %(table)s::text::regclass and d.policytype = 'r') as everywhere;

-- copy_everywhere --
-- A copy of a table, for this session, that such a function can read.
create temporary table cerebro_validation as select * from {table} distributed replicated;

-- pages --
-- Pages of a plain heap table that can be read in ranges of pages: here no row, since each segment has pages of its own.
select 0 as pages where false;

-- has_endpoints --
-- Whether rows can be fetched from where they lie, past the coordinator, and that is another host. On version 6 a
-- database has it by its extension gp_parallel_retrieve_cursor.
select exists (select 1 from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace
                where p.proname = 'gp_get_session_endpoints' and n.nspname = 'pg_catalog')
   and exists (select 1
                 from pg_catalog.gp_segment_configuration s
                 join pg_catalog.gp_segment_configuration c on c.content = -1 and c.role = 'p'
                where s.content >= 0 and s.role = 'p' and s.hostname <> c.hostname) as useful;
