-- engine --
-- Which engine this is; asked before anything is installed.
select case when pg_catalog.version() ~ 'Greenplum' then 'greenplum' else 'postgresql' end as engine;

-- server --
-- Name and version of the server, and the version of cerebro installed in this database.
select cerebro_private.engine() as engine, current_setting('server_version') as version
     , cerebro_private.version() as installed, current_database()::text as database;

-- sessions --
-- How many sessions a plain role could still open, and how many segments this database packs into.
select current_setting('max_connections')::integer as most
     , current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer
       - (select count(*) from pg_catalog.pg_stat_activity a where a.datname is not null)::integer as free
     , coalesce((select substr(c.line, 18)::integer
                   from pg_catalog.pg_db_role_setting s
                   join pg_catalog.pg_database d on d.oid = s.setdatabase
                  cross join lateral unnest(s.setconfig) as c (line)
                  where d.datname = current_database() and s.setrole = 0
                    and c.line like 'cerebro.segments=%%'), %(segments)s::integer) as segments;

-- session --
-- Whose rights a session has, and how it came.
select current_user::text as caller
     , case when inet_server_addr() is null then 'the unix socket' else 'TCP' end as way;

-- roles --
-- The caller, the roles of cerebro that exist, and those that the caller is a member of.
select current_user::text as caller
     , coalesce(array_agg(r.rolname::text order by r.rolname), '{}') as present
     , coalesce(array_agg(r.rolname::text order by r.rolname) filter (where pg_has_role(r.oid, 'member')), '{}') as held
  from pg_catalog.pg_roles r where r.rolname in ('cerebro_user', 'cerebro_admin');

-- all --
-- Every item of madlib_mop_check.
select item, value, ok, remedy from cerebro.madlib_mop_check();

-- plpython --
-- Whether the caller may use PL/Python, and whether the server has it.
select (select r.rolsuper from pg_catalog.pg_roles r where r.rolname = current_user) as superuser
     , exists (select 1 from pg_catalog.pg_available_extensions e where e.name = 'plpython3u') as available
     , (select min(e.name)::text from pg_catalog.pg_available_extensions e where e.name in ('plpythonu', 'plpython2u')) as older
     , exists (select 1 from pg_catalog.pg_proc p
                 join pg_catalog.pg_namespace n on n.oid = p.pronamespace
                where n.nspname = 'cerebro' and p.proname = 'madlib_mop_check') as used;

-- extension --
-- The version of the extension, where create extension has installed cerebro.
select e.extversion as version from pg_catalog.pg_extension e where e.extname = 'cerebro';

-- facts_here --
-- What the process of this session finds on its host, as JSON.
select cerebro_private.facts_here() as facts;
