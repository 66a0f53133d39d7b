-- keys_of_segments --
-- The __dist_key__ of each of so many segments, in order: segment i lands on primary i modulo their number.
select 0 as key;
