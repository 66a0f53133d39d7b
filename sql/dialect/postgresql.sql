-- keys_of_segments --
-- The __dist_key__ of each of so many segments, in order: any number is a place of its own.
select s.key from generate_series(0, %(segments)s::integer - 1) as s (key) order by 1;
