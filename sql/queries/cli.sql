-- Queries of cerebro_db/cli: the calls that its commands make.

-- installed --
-- Whether this database has the functions, and its name for the message when not.
select exists (select 1 from pg_catalog.pg_namespace n where n.nspname = 'cerebro') as installed
     , current_database()::text as database

-- fit --
-- Train all configs of a selection table.
select f.run_id, f.status, f.configs, f.best_mst_key, f.best_metric, f.seconds
  from cerebro.madlib_mop_fit(
           source_table := %(source)s::text
         , model_output_table := %(output)s::text
         , model_selection_table := %(selection)s::text
         , num_iterations := %(iterations)s::integer
         , use_gpus := false
         , validation_table := %(validation)s::text
         , name := %(name)s::text
         , description := %(description)s::text
         , strategy := %(strategy)s::text
         , options := %(options)s::jsonb) f

-- resume --
-- Go on with a run from its last finished hops.
select r.run_id, r.status, r.configs, r.best_mst_key, r.best_metric, r.seconds
  from cerebro.madlib_mop_resume(%(run_id)s::integer) r

-- run_of_session --
-- The run that a session coordinates; NULL before it begins.
select max(r.run_id) as run_id
  from cerebro.run r
 where r.coordinator_pid = %(pid)s and r.status = 'running'

-- progress --
-- How far the caller's runs are; one run, or all when run_id is NULL.
select p.run_id, p.name, p.status, p.hops_done, p.hops_total, p.percent::double precision as percent
     , p.rows_done::bigint as rows_done, p.seconds::double precision as seconds
     , p.seconds_left::double precision as seconds_left, p.rows_per_second::double precision as rows_per_second
     , p.best_mst_key, p.best_metric, p.best_loss, p.error
  from cerebro.progress p
 where %(run_id)s::integer is null or p.run_id = %(run_id)s::integer
 order by p.run_id

-- packed --
-- What packing made.
select s.source_table, s.output_table, s.rows, s.segments, s.seed, s.nulls, s.dropped_rows, s.buffer_size
     , (select count(*) from {packed}) as buffers
  from {summary} s

-- evaluation --
-- The result of an evaluation.
select e.loss, e.metric, e.metrics_type, e.loss_type, e.mst_key, e.rows from {output} e
