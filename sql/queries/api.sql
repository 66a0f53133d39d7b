-- Queries of cerebro_db/api.py: the SQL functions as Python calls them, and the tables they leave.

-- fit --
-- Train all configs of a selection table.
select f.*
  from cerebro.madlib_mop_fit(
           source_table := %(source_table)s::text
         , model_output_table := %(model_output_table)s::text
         , model_selection_table := %(model_selection_table)s::text
         , num_iterations := %(num_iterations)s::integer
         , use_gpus := %(use_gpus)s::boolean
         , validation_table := %(validation_table)s::text
         , metrics_compute_frequency := %(metrics_compute_frequency)s::integer
         , warm_start := %(warm_start)s::boolean
         , name := %(name)s::text
         , description := %(description)s::text
         , use_caching := %(use_caching)s::boolean
         , strategy := %(strategy)s::text
         , options := %(options)s::text::jsonb) f

-- resume --
-- Go on with a run from its last finished hops.
select r.* from cerebro.madlib_mop_resume(%(run_id)s::integer) r

-- status --
-- How far a run is, or all of the caller's.
select s.* from cerebro.madlib_mop_status(%(run_id)s::integer) s

-- run --
-- One run of the caller.
select r.* from cerebro.run r where r.run_id = %(run_id)s

-- hops --
-- Finished hops in the order in which they started.
select h.* from cerebro.hop h where h.run_id = %(run_id)s order by h.started_at, h.mst_key

-- metrics --
-- Loss and metric by config and epoch.
select m.* from cerebro.metric m where m.run_id = %(run_id)s order by m.mst_key, m.epoch

-- leaderboard --
-- Configs from best to worst, by the ranking of the run.
select i.*
  from {info} i
  join cerebro.run r on r.run_id = %(run_id)s
 order by cerebro_private.rank(r.ranking, coalesce(i.validation_metrics_final, i.training_metrics_final)
                             , coalesce(i.validation_loss_final, i.training_loss_final)) nulls last
        , i.mst_key

-- table --
-- A table as it is.
select * from {table}
