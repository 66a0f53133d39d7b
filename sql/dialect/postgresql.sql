-- keys_of_segments --
-- The __dist_key__ of each of so many segments, in order: any number is a place of its own.
select s.key from generate_series(0, %(segments)s::integer - 1) as s (key) order by 1;

-- is_everywhere --
-- Whether a function that runs where another table's rows are can read this table: there is one place only.
select true as everywhere;

-- copy_everywhere --
-- A copy of a table, for this session, that such a function can read.
create temporary table cerebro_validation as select * from {table};
