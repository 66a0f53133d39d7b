-- Queries of cerebro_db/report: one run read through the views, so a caller sees their own runs only.

-- run --
-- One run and how far it is; times in seconds since the epoch. An interrupted run ends with its last hop.
select r.run_id, r.owner::text as owner, r.name, r.description, r.source_table, r.packed_table
     , r.validation_table, r.model_output_table, r.num_iterations, r.strategy, r.ranking, r.status, r.error
     , extract(epoch from r.started_at)::double precision as started_at
     , extract(epoch from coalesce(
           r.trained_at
         , r.finished_at
         , case when r.status = 'running' then clock_timestamp() end
         , h.last
         , r.started_at))::double precision as ended_at
     , p.hops_total::bigint as hops_total
  from cerebro.run r
  join cerebro.progress p on p.run_id = r.run_id
  left join (select h.run_id, max(h.finished_at) as last from cerebro.hop h group by h.run_id) h on h.run_id = r.run_id
 where r.run_id = %(run_id)s::integer

-- configs --
-- The configs of a run.
select c.mst_key, c.model_id, c.compile_params, c.fit_params, c.model_arch::text as model_arch
     , c.state_bytes, c.status, c.error
  from cerebro.config c
 where c.run_id = %(run_id)s::integer
 order by c.mst_key

-- hops --
-- Finished hops in the order they started; times in seconds since the start of the run.
select h.mst_key, h.epoch, h.segment_id, h.rows, h.loss, h.metric, h.validation_loss, h.validation_metric
     , h.train_seconds, h.validate_seconds, h.data_seconds, h.hop_seconds, h.start_seconds, h.session_pid
     , extract(epoch from h.started_at - r.started_at)::double precision as started
     , extract(epoch from h.finished_at - r.started_at)::double precision as finished
  from cerebro.hop h
  join cerebro.run r on r.run_id = h.run_id
 where h.run_id = %(run_id)s::integer
 order by h.started_at, h.mst_key

-- profile --
-- Where the time of each config's hops went, phase by phase; no row without option profile.
select p.mst_key, p.phase, sum(p.seconds)::double precision as seconds
  from cerebro.profile p
 where p.run_id = %(run_id)s::integer
 group by p.mst_key, p.phase
 order by p.mst_key, p.phase

-- epochs --
-- Loss and metric of each config after each finished epoch.
select m.mst_key, m.epoch, m.training_loss, m.training_metric, m.validation_loss, m.validation_metric
  from cerebro.metric m
 where m.run_id = %(run_id)s::integer
 order by m.mst_key, m.epoch
