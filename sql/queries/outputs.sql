-- drop --
-- Remove an output of the earlier fit that a warm start replaces.
drop table {table};

-- previous --
-- What an earlier fit left for a key.
select o.model_weights, o.model_arch::jsonb = %(model_arch)s::jsonb as same_arch
  from {output} o where o.mst_key = %(mst_key)s::integer;

-- models --
-- One row per config: weights and optimizer state as safetensors.
create table {models} (
    mst_key integer not null
  , model_weights bytea
  , model_arch json
  , optimizer_state bytea
);

-- external --
-- Floats do not compress.
alter table {models} alter column model_weights set storage external
                   , alter column optimizer_state set storage external;

-- fill_models --
-- Copy the states inside the database.
insert into {models} (mst_key, model_weights, model_arch, optimizer_state)
select f.mst_key, f.model_weights, f.model_arch, f.optimizer_state
  from cerebro_private.final_state(%(run_id)s::integer) f;

-- primary_key --
-- One row per config.
alter table {models} add primary key (mst_key);

-- info --
-- One row per config: parameters, metrics by epoch, how it ended.
create table {info} as
select c.mst_key
     , c.model_id
     , c.compile_params
     , c.fit_params
     , 'cerebro_mop'::text as model_type
     , (select octet_length(m.model_weights) / 1024.0 from {models} m where m.mst_key = c.mst_key)::double precision as model_size
     , h.metrics_elapsed_time
     , case when p.metric is null then array[]::text[] else array[p.metric] end as metrics_type
     , p.loss as loss_type
     , h.training_metrics[array_upper(h.training_metrics, 1)] as training_metrics_final
     , h.training_loss[array_upper(h.training_loss, 1)] as training_loss_final
     , h.training_metrics
     , h.training_loss
     , h.validation_metrics[array_upper(h.validation_metrics, 1)] as validation_metrics_final
     , h.validation_loss[array_upper(h.validation_loss, 1)] as validation_loss_final
     , h.validation_metrics
     , h.validation_loss
     , c.status
     , c.error
  from cerebro.config c
  join cerebro.run r on r.run_id = c.run_id
  join lateral (
       select q ->> 'loss' as loss, q ->> 'metric' as metric
         from json_array_elements(cerebro_private.plan(%(run_id)s::integer) -> 'objectives') q
        where (q ->> 'mst_key')::integer = c.mst_key) p on true
  left join lateral (
       select array_agg(m.elapsed_seconds order by m.epoch) as metrics_elapsed_time
            , case when p.metric is not null then array_agg(m.training_metric order by m.epoch) end as training_metrics
            , array_agg(m.training_loss order by m.epoch) as training_loss
            , case when p.metric is not null and r.validation_table is not null
                   then array_agg(m.validation_metric order by m.epoch) end as validation_metrics
            , case when r.validation_table is not null
                   then array_agg(m.validation_loss order by m.epoch) end as validation_loss
         from cerebro.metric m
        where m.run_id = c.run_id and m.mst_key = c.mst_key
          and m.epoch = any (%(epochs)s::bigint[])) h on true
 where c.run_id = %(run_id)s::integer;

-- info_key --
-- One row per config.
alter table {info} add primary key (mst_key);

-- summary --
-- One row about the whole run.
create table {summary} as
select r.source_table
     , r.validation_table
     , r.model_output_table as model
     , r.model_output_table || '_info' as model_info
     , s.dependent_varname
     , s.independent_varname
     , (cerebro_private.plan(%(run_id)s::integer) -> 'outputs' ->> 'model_arch_table') as model_arch_table
     , r.model_selection_table
     , null::text as object_table
     , r.num_iterations
     , (cerebro_private.plan(%(run_id)s::integer) ->> 'metrics_frequency')::integer as metrics_compute_frequency
     , (cerebro_private.plan(%(run_id)s::integer) -> 'outputs' ->> 'replace')::boolean as warm_start
     , r.name
     , r.description
     , r.started_at as start_training_time
     , r.trained_at as end_training_time
     , cerebro_private.version() as cerebro_version
     , s.num_classes
     , s.{class_values}
     , s.dependent_vartype
     , s.normalizing_const
     , %(epochs)s::bigint[]::integer[] as metrics_iters
     , r.run_id
     , r.packed_table
     , r.strategy
     , (cerebro_private.plan(%(run_id)s::integer) -> 'options') as options
     , (cerebro_private.plan(%(run_id)s::integer) -> 'layout') as layout
  from cerebro.run r
 cross join {packed_summary} s
 where r.run_id = %(run_id)s::integer;

-- best --
-- The best config by the run's ranking.
select m.mst_key
     , coalesce(m.validation_metric, m.training_metric, m.validation_loss, m.training_loss) as metric
  from cerebro.run r
  join lateral (
       select distinct on (m.mst_key) m.*
         from cerebro.metric m where m.run_id = r.run_id order by m.mst_key, m.epoch desc) m on true
 where r.run_id = %(run_id)s::integer
   and cerebro_private.rank(r.ranking, coalesce(m.validation_metric, m.training_metric)
                          , coalesce(m.validation_loss, m.training_loss)) is not null
 order by cerebro_private.rank(r.ranking, coalesce(m.validation_metric, m.training_metric)
                             , coalesce(m.validation_loss, m.training_loss))
        , coalesce(m.validation_loss, m.training_loss), m.mst_key
 limit 1;

-- epoch --
-- What a config reached in an epoch, and how far the run is.
select m.training_loss, m.training_metric, m.validation_loss, m.validation_metric
     , m.elapsed_seconds as seconds, floor(p.percent)::integer as percent
  from cerebro.metric m join cerebro.progress p on p.run_id = m.run_id
 where m.run_id = %(run_id)s::integer and m.mst_key = %(mst_key)s::integer and m.epoch = %(epoch)s::integer;
