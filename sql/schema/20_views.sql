-- What users read. A row shows to its owner and to members of the owner's role.

create or replace view cerebro.run with (security_barrier) as
select r.run_id, r.owner, r.name, r.description, r.source_table, r.packed_table, r.validation_table
     , r.model_output_table, r.model_selection_table, r.num_iterations, r.strategy, r.ranking
     , case when d.run_id is not null then 'finished'
            when r.status = 'running' and not r.run_id = any (cast((select cerebro_private.coordinated_runs()) as integer[])) then 'interrupted'
            else r.status end as status
     , r.error, r.coordinator_pid, r.started_at, r.trained_at, d.finished_at
  from cerebro_private.run r
  left join cerebro_private.delivery d on d.run_id = r.run_id
 where pg_has_role(current_user, r.owner, 'member');
comment on view cerebro.run is 'Runs of the caller: one row per madlib_mop_fit.';

create or replace view cerebro.config with (security_barrier) as
select c.run_id, c.mst_key, c.model_id, c.compile_params, c.fit_params, c.model_arch
     , h.state_bytes
     , case when c.status = 'waiting' and h.mst_key is not null then 'training' else c.status end as status
     , c.error
  from cerebro_private.config c
  join cerebro_private.run r on r.run_id = c.run_id
  left join (select h.run_id, h.mst_key, max(h.state_bytes) as state_bytes
               from cerebro_private.hop h
              group by h.run_id, h.mst_key) h on h.run_id = c.run_id and h.mst_key = c.mst_key
 where pg_has_role(current_user, r.owner, 'member');
comment on view cerebro.config is 'Configs of each run with their state: waiting, training, finished, diverged or failed.';

create or replace view cerebro.profile with (security_barrier) as
select p.*
  from cerebro_private.profile p
  join cerebro_private.run r on r.run_id = p.run_id
 where pg_has_role(current_user, r.owner, 'member');
comment on view cerebro.profile is 'Where the time of hops went: calls and seconds of each phase, of runs with option profile.';

create or replace view cerebro.hop with (security_barrier) as
select h.*
  from cerebro_private.hop h
  join cerebro_private.run r on r.run_id = h.run_id
 where pg_has_role(current_user, r.owner, 'member');
comment on view cerebro.hop is 'Finished hops with metrics and where the time went [s].';

create or replace view cerebro.metric with (security_barrier) as
select h.run_id, h.mst_key, h.epoch
     , sum(h.rows) as rows
     -- In order, so that the last bit does not depend on which hop ended first.
     , sum(h.loss * h.rows order by h.segment_id) / sum(h.rows) as training_loss
     , sum(h.metric * h.rows order by h.segment_id) / sum(h.rows) as training_metric
     , max(h.validation_loss) as validation_loss
     , max(h.validation_metric) as validation_metric
     , max(extract(epoch from h.finished_at - r.started_at))::double precision as elapsed_seconds
  from cerebro_private.hop h
  join cerebro_private.run r on r.run_id = h.run_id
  join (select s.run_id, count(*) as segments from cerebro_private.segment s group by s.run_id) s on s.run_id = h.run_id
 where pg_has_role(current_user, r.owner, 'member')
 group by h.run_id, h.mst_key, h.epoch, r.started_at, s.segments
having count(*) = s.segments;
comment on view cerebro.metric is 'Loss and metric of each config after each finished epoch; training values come from the training pass.';

create or replace view cerebro.segment with (security_barrier) as
select s.*
  from cerebro_private.segment s
  join cerebro_private.run r on r.run_id = s.run_id
 where pg_has_role(current_user, r.owner, 'member');
comment on view cerebro.segment is 'Where the rows of each run live, and how many there are.';

-- Grouped once and joined: Greenplum cannot ask a distributed table anew for each row of another.
create or replace view cerebro.progress with (security_barrier) as
select p.run_id, p.name, p.status, p.hops_done, p.hops_total
     , round(100.0 * p.hops_done / greatest(p.hops_total, 1), 1) as percent
     , p.rows_done
     , round(p.seconds::numeric, 1) as seconds
     , case when p.status = 'running' and p.hops_done > 0
            then round((p.seconds * (p.hops_total - p.hops_done) / p.hops_done)::numeric, 1) end as seconds_left
     , round((p.rows_done / greatest(p.seconds, 0.001))::numeric) as rows_per_second
     , best.mst_key as best_mst_key
     , coalesce(best.validation_metric, best.training_metric) as best_metric
     , coalesce(best.validation_loss, best.training_loss) as best_loss
     , p.error
  from (select r.run_id, r.name, r.status, r.error
             , coalesce(done.hops, 0) as hops_done
             , coalesce(s.segments * r.num_iterations * c.configs, 0) as hops_total
             , coalesce(done.rows, 0) as rows_done
             , extract(epoch from case when r.status = 'running' then clock_timestamp()
                                       else coalesce(r.trained_at, done.last, r.started_at) end
                                  - r.started_at) as seconds
          from cerebro.run r
          left join (select s.run_id, count(*) as segments from cerebro_private.segment s group by s.run_id) s
            on s.run_id = r.run_id
          left join (select c.run_id, count(*) as configs from cerebro_private.config c group by c.run_id) c
            on c.run_id = r.run_id
          left join (select h.run_id, count(*) as hops, sum(h.rows) as rows, max(h.finished_at) as last
                       from cerebro_private.hop h group by h.run_id) done on done.run_id = r.run_id) p
  left join (select distinct on (m.run_id) m.*
               from (select distinct on (e.run_id, e.mst_key) e.*, r.ranking
                       from cerebro.metric e
                       join cerebro_private.run r on r.run_id = e.run_id
                      order by e.run_id, e.mst_key, e.epoch desc) m
              order by m.run_id
                     , cerebro_private.rank(m.ranking, coalesce(m.validation_metric, m.training_metric)
                                          , coalesce(m.validation_loss, m.training_loss)) nulls last
                     , coalesce(m.validation_loss, m.training_loss), m.mst_key) best on best.run_id = p.run_id;
comment on view cerebro.progress is 'One line per run: how far it is, how fast, how long still [s], and the best config so far.';

-- -- what a column means, where its name does not say it

comment on column cerebro.run.status is
    'running, interrupted (its coordinator was killed), trained (outputs not written yet), finished, failed or cancelled.';
comment on column cerebro.run.ranking is 'How configs compare: metric_higher, metric_lower or loss.';
comment on column cerebro.run.coordinator_pid is 'Process of the session that coordinates the run.';
comment on column cerebro.config.mst_key is 'Number of the config in its selection table.';
comment on column cerebro.config.state_bytes is 'What hops: weights, optimizer and counters [bytes].';
comment on column cerebro.config.status is 'waiting, training, finished, diverged (its loss became NaN) or failed.';
comment on column cerebro.hop.epoch is 'Pass over the rows, from 1.';
comment on column cerebro.hop.loss is 'Mean training loss over the rows of this hop.';
comment on column cerebro.hop.metric is 'Mean training metric over the rows of this hop; NULL without a metric.';
comment on column cerebro.hop.validation_loss is 'Mean validation loss; only on the last hop of an epoch that validates.';
comment on column cerebro.hop.train_seconds is 'Training [s]; of configs trained as one, as the other parts, an equal share.';
comment on column cerebro.hop.validate_seconds is 'Validating [s].';
comment on column cerebro.hop.data_seconds is 'Reading and decoding rows [s].';
comment on column cerebro.hop.hop_seconds is 'Moving state in and out [s].';
comment on column cerebro.hop.start_seconds is 'Building module and optimizer, first imports [s].';
comment on column cerebro.metric.elapsed_seconds is 'From the start of the run to the end of the epoch [s].';
comment on column cerebro.segment.dist_key is 'Value of __dist_key__ in the packed table.';
comment on column cerebro.progress.percent is 'Share of hops that are done.';
comment on column cerebro.progress.rows_done is 'Rows trained on, over all configs and epochs.';
comment on column cerebro.progress.seconds is 'From the start of the run until now, or until its last hop [s].';
comment on column cerebro.progress.seconds_left is 'Estimate from the hops that are done [s]; NULL when it does not run.';
comment on column cerebro.progress.best_mst_key is 'Config that is best so far.';
