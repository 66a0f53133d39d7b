-- keys_of_segments --
-- The __dist_key__ of each of so many segments, in order: segment i lands on primary i modulo their number.
select 0 as key;

-- is_everywhere --
-- Whether a function that runs where another table's rows are can read this table.
select exists (select 1 from pg_catalog.gp_distribution_policy d
                where d.localoid = %(table)s::text::regclass and d.policytype = 'r') as everywhere;

-- copy_everywhere --
-- A copy of a table, for this session, that such a function can read.
create temporary table cerebro_validation as select * from {table} distributed replicated;
