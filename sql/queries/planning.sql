-- settings --
-- Settings of the caller whose names begin with cerebro.
select substr(s.name, 9) as name, s.setting from pg_catalog.pg_settings s where s.name like 'cerebro.%%';

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
