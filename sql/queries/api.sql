-- Queries of cerebro_db/api.py and connections.py: the tables that runs leave.

-- run --
-- One run of the caller.
select r.* from cerebro.run r where r.run_id = %(run_id)s::integer

-- hops --
-- Finished hops in the order in which they started.
select h.* from cerebro.hop h where h.run_id = %(run_id)s::integer order by h.started_at, h.mst_key

-- metrics --
-- Loss and metric by config and epoch.
select m.* from cerebro.metric m where m.run_id = %(run_id)s::integer order by m.mst_key, m.epoch

-- leaderboard --
-- Configs from best to worst, by the ranking of the run.
select i.*
  from {info} i
  join cerebro.run r on r.run_id = %(run_id)s::integer
 order by cerebro_private.rank(r.ranking, coalesce(i.validation_metrics_final, i.training_metrics_final)
                             , coalesce(i.validation_loss_final, i.training_loss_final)) nulls last
        , i.mst_key

-- table --
-- A table as it is.
select * from {table}
