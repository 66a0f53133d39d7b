-- Queries of cerebro_db/datasets.py: the two sets that the demo and the tests train on.

-- schema --
-- The schema to load into (the one asked for, else the first of the search path) and whether it is there.
select coalesce(%(schema)s::text, current_schema()::text) as name
     , exists (select 1
                 from pg_catalog.pg_namespace n
                where n.nspname = coalesce(%(schema)s::text, current_schema()::text)) as known

-- columns --
-- Columns of a table as 'name type' texts in order; no row when nothing of that name is there.
select c.relkind::text as kind
     , array(select a.attname || ' ' || pg_catalog.format_type(a.atttypid, a.atttypmod)
               from pg_catalog.pg_attribute a
              where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
              order by a.attnum) as columns
  from pg_catalog.pg_class c
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
 where n.nspname = %(schema)s and c.relname = %(name)s

-- count --
-- Rows of a table.
select count(*) as rows from {table}

-- count_labels --
-- Rows of a table, and those among them that have no label.
select count(*) as rows, count(*) - count({label}) as unlabelled from {table}

-- analyze --
-- Statistics for the planner, right after loading.
analyze {table}

-- create_images --
-- A table of images: one example per row, 784 bytes of uint8, row by row.
create table {table} (
    id integer primary key
  , img bytea not null
  , label text not null
) {stored}

-- copy_images --
-- Images in the binary format of COPY.
copy {table} (id, img, label) from stdin (format binary)

-- create_flights --
-- Flights as the file has them; id is the line of the file, from 1.
create table {table} (
    id serial primary key
  , year smallint not null
  , month smallint not null
  , day smallint not null
  , dep_time smallint
  , sched_dep_time smallint not null
  , dep_delay real
  , arr_time smallint
  , sched_arr_time smallint not null
  , arr_delay real
  , carrier text not null
  , flight integer not null
  , tailnum text
  , origin text not null
  , dest text not null
  , air_time real
  , distance real not null
  , hour smallint not null
  , minute smallint not null
  , time_hour timestamp with time zone not null
) {stored}

-- copy_flights --
-- Flights as CSV with a header; 'NA' is NULL.
copy {table} (year, month, day, dep_time, sched_dep_time, dep_delay, arr_time, sched_arr_time, arr_delay
            , carrier, flight, tailnum, origin, dest, air_time, distance, hour, minute, time_hour)
from stdin (format csv, header, null 'NA')

-- create_flights_part --
-- What is known when the aircraft leaves the gate, and the label; times of day in minutes after midnight.
create table {table} (
    id integer primary key
  , month smallint not null
  , day smallint not null
  , weekday smallint not null
  , sched_dep_minute smallint not null
  , sched_arr_minute smallint not null
  , dep_delay real
  , distance real not null
  , carrier text not null
  , origin text not null
  , dest text not null
  , late boolean
) {stored}

-- fill_flights_part --
-- Every tenth flight is for testing; late is NULL where the flight was cancelled or diverted.
insert into {table}
select f.id, f.month, f.day
     , extract(isodow from pg_catalog.make_date(f.year, f.month, f.day))
     , f.sched_dep_time / 100 * 60 + f.sched_dep_time %% 100
     , f.sched_arr_time / 100 * 60 + f.sched_arr_time %% 100
     , f.dep_delay, f.distance, f.carrier, f.origin, f.dest
     , f.arr_delay > 15
  from {flights} f
 where (f.id %% 10 = 0) = %(test)s
