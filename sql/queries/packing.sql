-- describe --
-- The columns of a table in order, with the types under domains and arrays.
with recursive typed (attnum, name, sql_type, type) as (
    select a.attnum, a.attname::text, pg_catalog.format_type(a.atttypid, a.atttypmod), a.atttypid
      from pg_catalog.pg_attribute a
     where a.attrelid = %(table)s::text::regclass and a.attnum > 0 and not a.attisdropped
     union all
    select d.attnum, d.name, d.sql_type, t.typbasetype
      from typed d
      join pg_catalog.pg_type t on t.oid = d.type
     where t.typtype = 'd'
)
select d.name, d.sql_type, pg_catalog.format_type(t.oid, -1) as plain_type
     , coalesce(e.typname, t.typname)::text as base, e.oid is not null as is_array, t.typtype = 'e' as is_enum
  from typed d
  join pg_catalog.pg_type t on t.oid = d.type
  left join pg_catalog.pg_type e on e.oid = t.typelem and t.typlen = -1 and t.typcategory = 'A'
 where t.typtype <> 'd'
 order by d.attnum;

-- count_nulls --
-- Rows, rows without any NULL, and the values that each column has: one scan.
select count(*) as rows, count(*) filter (where {keep}) as kept, array[{counts}] as counts
  from {table} as source;

-- probe --
-- One scan over all columns: values counted, numbers averaged, sizes of arrays and bytea compared.
select count(*) as rows, array[{counts}] as counts
     , array[{means}]::float8[] as means, array[{deviations}]::float8[] as deviations
     , array[{smallest}]::text[] as smallest, array[{largest}]::text[] as largest
  from (select {probes} from {table} as source where {keep} offset 0) as s;

-- unfit_numbers --
-- Numbers that a float32 cannot hold, counted per column: NaN, Infinity, too large.
select array[{nans}] as nans, array[{infinities}] as infinities, array[{large}] as large
  from {table} as source where {keep};

-- sizes --
-- How many rows have each size of an array or bytea, the most frequent first.
select {size} as size, count(*) as rows
  from {table} as source where {keep} and {column} is not null
 group by 1 order by 2 desc, 1 limit 6;

-- unfit_elements --
-- Elements of an array column that cannot be packed, counted.
select count(*) filter (where e.value is null) as nulls
     , count(*) filter (where e.value::text = 'NaN') as nans
     , count(*) filter (where e.value::text in ('Infinity', '-Infinity')) as infinities
     , count(*) filter (where abs(case when e.value::text not in ('NaN', 'Infinity', '-Infinity') then e.value end)
                              > 3.4028235e38) as large
  from {table} as source cross join lateral unnest({column}) as e (value) where {keep};

-- labels --
-- The distinct labels as text in their own order, one more than allowed at most.
select s.label::text as label
  from (select {label} as label from {table} as source where {keep} group by 1) as s
 order by s.label {collation} limit %(most)s;

-- words --
-- The distinct values of a categorical column as text, in the order of their bytes.
select s.word
  from (select {column}::text as word from {table} as source where {keep} and {column} is not null group by 1) as s
 order by s.word collate "C" limit %(most)s;

-- settings --
-- The session's settings that packing changes; a server without one of them leaves it out.
select s.name, s.setting, s.unit from pg_catalog.pg_settings s where s.name = any(%(names)s::text[]);

-- apply_settings --
-- Set settings until the transaction ends.
select pg_catalog.set_config(u.name, u.setting, true)
  from unnest(%(names)s::text[], %(values)s::text[]) as u (name, setting);

-- next_seed --
-- A number of the session's own random sequence, to go on from after packing.
select random() as seed;

-- set_seed --
-- Start the session's random sequence at a place.
select setseed(%(seed)s::float8);

-- cores --
-- Processors that the server may use.
select cerebro_private.cpu_count() as cores;

-- create_packed --
-- An empty packed table: bytes and shapes per input, then where each buffer is.
create table {table} ({columns}, buffer_id integer not null, __dist_key__ integer not null)
{stored};

-- store_plain --
-- Keep the bytes of a column out of line and uncompressed: they are read whole, and fast.
alter table {table} alter column {column} set storage external;

-- shuffle_starts --
-- The random number with which each buffer starts, when rows are sorted by theirs and cut evenly:
-- buffers, and the segments that are runs of them, differ in size by one row at most.
select percentile_disc(%(fractions)s::float8[]) within group (order by n.shuffle) as starts
  from (select random() as shuffle from generate_series(1, %(rows)s) offset 0) as n;

-- shuffle_bins --
-- Rows per bin of their random numbers.
select floor({number} * %(bins)s::integer)::integer as bin, count(*) as rows
  from {table} as source where {keep} group by 1;

-- shuffle_places --
-- The random numbers at some places, from 1, of the sorted numbers of some bins.
select r.shuffle
  from (select n.bin, n.shuffle, row_number() over (partition by n.bin order by n.shuffle) as place
          from (select {number} as shuffle, floor({number} * %(bins)s::integer)::integer as bin
                  from {table} as source where {keep}) as n
         where n.bin = any(%(at_bins)s::integer[])) as r
  join unnest(%(at_bins)s::integer[], %(at_places)s::bigint[]) as w (bin, place) on w.bin = r.bin and w.place = r.place;

-- whole_bytes --
-- An array of whole numbers as the bytes of its elements; too long when one does not fit.
cerebro_private.whole_bytes({value}, %({slot}_prefix)s::text, %({slot}_elements)s::integer);

-- real_bytes --
-- An array of float4 as the bytes of its elements; NULL when one is not finite.
cerebro_private.real_bytes({value}, %({slot}_elements)s::integer);

-- complete --
-- Encoded rows to the bytes of a buffer; NULL when those of a row are missing or too long.
case when count(b.{slot}) = count(*) and octet_length(string_agg(b.{slot}, ''::bytea)) = count(*) * %({slot}_bytes)s::bigint
     then string_agg(b.{slot}, ''::bytea) end;

-- unfit_buffers --
-- Buffers per column whose arrays did not fit, and the rows packed.
select array[{counts}] as unfit, sum({shape}[1])::bigint as rows from {table};

-- index_packed --
-- Find the buffers of a segment in order.
create index on {table} (__dist_key__, buffer_id);

-- analyze --
-- Let the planner know the packed table.
analyze {table};

-- create_summary --
-- What the packed table was made of and how, in one row; MADlib's columns first.
create table {summary} {heap}
as
select %(source_table)s::text as source_table, %(output_table)s::text as output_table
     , array[%(dependent)s]::text[] as dependent_varname, %(independent)s::text[] as independent_varname
     , array[%(dependent_type)s]::text[] as dependent_vartype, {class_values} as {class_column}
     , %(buffer_size)s::integer as buffer_size, %(normalizing_const)s::float8 as normalizing_const
     , %(num_classes)s::integer[] as num_classes, %(distribution_rules)s::text as distribution_rules
     , %(layout)s::json as layout, %(rows)s::bigint as rows, %(segments)s::integer as segments
     , %(seed)s::integer as seed, %(nulls)s::text as nulls, %(dropped_rows)s::bigint as dropped_rows
     , %(imputed)s::json as imputed, clock_timestamp() as packed_at
{replicated};

-- unseen_labels --
-- Labels that a model cannot know, since its training rows do not have them.
select distinct s.label::text as label
  from (select {label} as label from {table} as source where {keep} group by 1) as s
 where not exists (select 1 from unnest(%(classes)s::text[]{cast}) as k (label) where k.label = s.label)
 order by 1 limit %(most)s;

-- read_summary --
-- What reading a packed table needs from its summary.
select s.source_table, s.layout::text as layout, s.rows, s.segments, s.seed
     , to_char(s.packed_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS.US') as packed_at
  from {summary} s;

-- count_rows --
-- Rows of a small table.
select count(*) as rows from {table};

-- count_copied --
-- Rows of each segment of a packed table that Greenplum has a copy of on each of its own; reads no bytes.
select t.__dist_key__ as segment_id, t.__dist_key__ as dist_key, sum(t.{shape}[1])::bigint as rows
  from {table} t group by 1, 2 order by 1;

-- buffers --
-- The buffers of one segment in order.
select t.buffer_id, {columns} from {table} t where t.__dist_key__ = %(dist_key)s::integer order by t.buffer_id;

-- oid --
-- Identity of a table.
select %(table)s::text::regclass::oid::bigint as oid;

-- concatenate --
-- Encoded rows to the bytes of a buffer.
string_agg(b.{slot}, ''::bytea);

-- shape --
-- Rows of a buffer, then the shape of each.
array_cat(array[count(*)::integer], %({slot}_shape)s::integer[]);

-- drop_packed --
-- Remove a packed table that has to be packed anew.
drop table {table};

-- name_bytes --
-- Longest name that the server keeps [bytes].
select pg_catalog.current_setting('max_identifier_length')::integer as name_bytes;
