-- server --
-- How this server reaches itself, and who asks.
select current_database()::text as dbname
     , l.port
     , l.socket_directories
     , coalesce(l.listen_addresses, '') as listen_addresses
     , l.superuser::text as superuser
     , r.rolname::text as caller
     , r.oid::bigint as caller_oid
     , pg_backend_pid() as caller_pid
     , r.rolsuper as caller_is_superuser
     , current_setting('server_version_num')::integer as version
  from cerebro_private.loopback() l
  join pg_catalog.pg_roles r on r.rolname = current_user;

-- role_name --
-- A name that tells later calls whether this session, the broker, still lives.
select %(prefix)s::text || a.pid || '_' || extract(epoch from a.backend_start)::bigint as name
  from pg_catalog.pg_stat_activity a where a.pid = pg_backend_pid();

-- stale_roles --
-- Roles of calls whose broker is gone, and that no session has which is kept. Of a caller that was dropped: to whoever asks.
select r.rolname::text as rolname, coalesce(c.rolname::text, current_user::text) as caller
  from pg_catalog.pg_roles r
  left join pg_catalog.pg_auth_members m on m.member = r.oid
  left join pg_catalog.pg_roles c on c.oid = m.roleid
 where r.rolname ~ '^cerebro_session_[0-9]+_[0-9]+$'
   and not exists (
       select 1 from pg_catalog.pg_stat_activity a
        where r.rolname = 'cerebro_session_' || a.pid || '_' || extract(epoch from a.backend_start)::bigint
           or a.usesysid = r.oid);

-- role_of --
-- The role by which a session of an earlier call is logged in.
select r.rolname::text as rolname
  from pg_catalog.pg_stat_activity a
  join pg_catalog.pg_roles r on r.oid = a.usesysid
  join pg_catalog.pg_auth_members m on m.member = r.oid
  join pg_catalog.pg_roles c on c.oid = m.roleid
 where a.pid = %(pid)s::integer and c.rolname = %(caller)s::text and r.rolname ~ '^cerebro_session_[0-9]+_[0-9]+$';

-- reopen_role --
-- A role of an earlier call lets its caller in again, under the name of this one.
alter role {role} rename to {new};
alter role {new} login password %(verifier)s;

-- close_role --
-- Nobody logs in by this role; sessions that are kept still have it.
alter role {role} nologin password null;

-- make_role --
-- A login role that can do what the caller can.
create role {role} login inherit nosuperuser nocreatedb nocreaterole password %(verifier)s in role {caller};

-- drop_role --
-- Remove a role of a call; what was made under its name goes to the caller.
reassign owned by {role} to {caller};
drop owned by {role};
drop role {role};

-- alive --
-- Fails when the session has ended.
select 1 as alive;

-- take_role --
-- Act as the caller.
set role {caller};

-- be_caller --
-- A superuser's session under the caller's name.
set session authorization {caller};

-- roles --
-- Who logged in or was made the session's user, and the role taken since.
select session_user::text as session_user, current_setting('role') as role;

-- clear --
-- Let go of the rows and modules that a run has left in this session.
select cerebro_private.clear_session();

-- discard --
-- Roles taken, settings, temporary tables, locks and plans of whatever the session has done.
discard all;

-- rest --
-- End by itself unless somebody wakes it.
set idle_session_timeout = %(milliseconds)s; set application_name = 'cerebro kept';

-- wake --
-- Stay for as long as the caller does.
reset idle_session_timeout; reset application_name;

-- living --
-- Those of these sessions that are still there.
select a.pid from pg_catalog.pg_stat_activity a where a.pid = any (%(pids)s::integer[]);
