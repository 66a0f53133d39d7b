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
) {by_key};

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
create table {info} (
    mst_key integer
  , model_id integer
  , compile_params text
  , fit_params text
  , model_type text
  , model_size double precision
  , metrics_elapsed_time double precision[]
  , metrics_type text[]
  , loss_type text
  , training_metrics_final double precision
  , training_loss_final double precision
  , training_metrics double precision[]
  , training_loss double precision[]
  , validation_metrics_final double precision
  , validation_loss_final double precision
  , validation_metrics double precision[]
  , validation_loss double precision[]
  , status text
  , error text
) {by_key};

-- fill_info --
-- What the run knows of each config; sizes are taken where the weights are.
insert into {info}
select c.mst_key
     , c.model_id
     , c.compile_params
     , c.fit_params
     , 'cerebro_mop'
     , w.model_size
     , h.elapsed
     , case when o.metric is null then array[]::text[] else array[o.metric] end
     , o.loss
     , case when o.metric is not null then h.training_metrics[h.last] end
     , h.training_loss[h.last]
     , case when o.metric is not null then h.training_metrics end
     , h.training_loss
     , case when o.metric is not null and r.validation_table is not null then h.validation_metrics[h.last] end
     , case when r.validation_table is not null then h.validation_loss[h.last] end
     , case when o.metric is not null and r.validation_table is not null then h.validation_metrics end
     , case when r.validation_table is not null then h.validation_loss end
     , c.status
     , c.error
  from cerebro.config c
  join cerebro.run r on r.run_id = c.run_id
  join unnest(%(mst_keys)s::bigint[], %(losses)s::text[], %(metrics)s::text[]) as o (mst_key, loss, metric)
    on o.mst_key = c.mst_key
  left join (select m.mst_key, max(octet_length(m.model_weights) / 1024.0)::double precision as model_size
               from {models} m group by m.mst_key) w on w.mst_key = c.mst_key
  left join (select m.mst_key
                  , count(*)::integer as last
                  , array_agg(m.elapsed_seconds order by m.epoch) as elapsed
                  , array_agg(m.training_metric order by m.epoch) as training_metrics
                  , array_agg(m.training_loss order by m.epoch) as training_loss
                  , array_agg(m.validation_metric order by m.epoch) as validation_metrics
                  , array_agg(m.validation_loss order by m.epoch) as validation_loss
               from cerebro.metric m
              where m.run_id = %(run_id)s::integer and m.epoch = any (%(epochs)s::bigint[])
              group by m.mst_key) h on h.mst_key = c.mst_key
 where c.run_id = %(run_id)s::integer;

-- info_key --
-- One row per config.
alter table {info} add primary key (mst_key);

-- summary --
-- One row about the whole run.
create table {summary} {heap} as
select r.source_table
     , r.validation_table
     , r.model_output_table as model
     , r.model_output_table || '_info' as model_info
     , s.dependent_varname
     , s.independent_varname
     , %(model_arch_table)s::text as model_arch_table
     , r.model_selection_table
     , null::text as object_table
     , r.num_iterations
     , %(frequency)s::integer as metrics_compute_frequency
     , %(warm_start)s::boolean as warm_start
     , r.name
     , r.description
     , r.started_at as start_training_time
     , r.trained_at as end_training_time
     , %(version)s::text as cerebro_version
     , s.num_classes
     , s.{class_values}
     , s.dependent_vartype
     , s.normalizing_const
     , %(epochs)s::bigint[]::integer[] as metrics_iters
     , r.run_id
     , r.packed_table
     , r.strategy
     , %(options)s::json as options
     , %(layout)s::json as layout
  from cerebro.run r
 cross join {packed_summary} s
 where r.run_id = %(run_id)s::integer
{by_run};

-- best --
-- The best config by the run's ranking.
select m.mst_key
     , coalesce(m.validation_metric, m.training_metric, m.validation_loss, m.training_loss) as metric
  from cerebro.run r
  join (select distinct on (e.mst_key) e.*
          from cerebro.metric e
         where e.run_id = %(run_id)s::integer
         order by e.mst_key, e.epoch desc) m on m.run_id = r.run_id
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
