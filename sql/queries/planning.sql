-- settings --
-- The caller's settings cerebro.<name>; pg_settings does not list settings that no module declares.
select s.name, s.setting
  from (select u.name, cerebro_private.setting('cerebro.' || u.name) as setting
          from unnest(%(names)s::text[]) as u (name)) s
 where s.setting is not null;

-- session --
-- What kind of transaction the caller is in.
select current_setting('transaction_isolation') as isolation
     , current_setting('transaction_read_only') = 'on' as read_only;

-- table_lock --
-- The exclusive lock that the caller's own transaction holds on a table, if any.
select (select l.mode
          from pg_catalog.pg_locks l
         where l.pid = pg_backend_pid() and l.locktype = 'relation' and l.granted
           and l.mode = 'AccessExclusiveLock'
           and l.relation = (select c.oid from pg_catalog.pg_class c
                               join pg_catalog.pg_namespace n on n.oid = c.relnamespace
                              where n.nspname = %(schema)s::text and c.relname = %(name)s::text)
         limit 1) as locked;
