-- keys_of_segments --
-- The __dist_key__ of each of so many segments, in order: segment i lands on primary i modulo their number.
select 0 as key;

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
