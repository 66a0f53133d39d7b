-- Queries of cerebro_db/cli: the calls that its commands make.

-- run_of_session --
-- The run that a session coordinates; NULL before it begins.
select max(r.run_id) as run_id
  from cerebro.run r
 where r.coordinator_pid = %(pid)s::integer and r.status = 'running'

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
