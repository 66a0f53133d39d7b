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
