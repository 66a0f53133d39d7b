-- database_exists --
-- A row when the server has a database of this name.
select 1 as found from pg_catalog.pg_database where datname = %(name)s;

-- has_segments --
-- A row when the current database sets its number of segments.
select 1 as found
  from pg_catalog.pg_db_role_setting s
  join pg_catalog.pg_database d on d.oid = s.setdatabase
 cross join lateral unnest(s.setconfig) as c (line)
 where d.datname = current_database() and s.setrole = 0 and c.line like 'cerebro.segments=%%';

-- server_facts --
-- Version, port and address of the connected server.
select current_setting('server_version') as version, current_setting('port')::integer as port
     , split_part(current_setting('listen_addresses'), ',', 1) as address;
