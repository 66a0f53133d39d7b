-- plan --
-- What the run was asked to do.
select cerebro_private.plan(%(run_id)s::integer)::text as plan;

-- start_run --
-- Record a run; gives its number.
select cerebro_private.start_run(
           %(source_table)s::text, %(packed_table)s::text, %(validation_table)s::text
         , %(model_output_table)s::text, %(model_selection_table)s::text, %(num_iterations)s::integer
         , %(strategy)s::text, %(ranking)s::text, %(plan)s::json, %(name)s::text, %(description)s::text) as run_id;

-- add_config --
-- Record a config and make the table of its state.
select cerebro_private.add_config(%(run_id)s::integer, %(mst_key)s::integer, %(model_id)s::integer
                                , %(compile_params)s::text, %(fit_params)s::text, %(model_arch)s::json);

-- add_segment --
-- Record a segment of a run.
select cerebro_private.add_segment(%(run_id)s::integer, %(segment_id)s::integer, %(dist_key)s::integer, %(rows)s::bigint);

-- add_event --
-- Append to the log.
select cerebro_private.add_event(%(run_id)s::integer, %(kind)s::text, %(mst_key)s::integer, %(epoch)s::integer
                               , %(segment_id)s::integer, %(seconds)s::float8, %(reason)s::text);

-- events --
-- The log in order.
select e.kind, e.mst_key, e.epoch, e.segment_id, e.seconds, e.reason
  from cerebro_private.events(%(run_id)s::integer) e;

-- claim_run --
-- Become the run's coordinator for as long as this session lives.
select cerebro_private.claim_run(%(run_id)s::integer, %(pid)s::integer) as claimed;

-- join_run --
-- Show that this session may commit hops of the run, until it ends.
select cerebro_private.join_run(%(run_id)s::integer);

-- trainers_gone --
-- Wait for the sessions that trained the run before.
select cerebro_private.trainers_gone(%(run_id)s::integer) as gone;

-- mark_coordinator --
-- Until this transaction ends, a cancel of the run cancels this session's statement.
select cerebro_private.mark_coordinator(%(run_id)s::integer);

-- end_run --
-- Training is over.
select cerebro_private.end_run(%(run_id)s::integer, %(status)s::text, %(error)s::text);

-- release_run --
-- Coordinate the run no longer.
select cerebro_private.release_run(%(run_id)s::integer);

-- end_config --
-- A config is over.
select cerebro_private.end_config(%(run_id)s::integer, %(mst_key)s::integer, %(status)s::text, %(error)s::text);

-- finish_run --
-- The outputs are written.
select cerebro_private.finish_run(%(run_id)s::integer);

-- cancel_run --
-- Ask the coordinator of a run to end.
select cerebro_private.cancel_run(%(run_id)s::integer) as cancelled;

-- cancel_wished --
-- Whether somebody asked to cancel a run.
select cerebro_private.cancel_wished(%(run_id)s::integer) as wished;

-- clear_state --
-- Empty a config's state.
select cerebro_private.clear_state(%(run_id)s::integer, %(mst_key)s::integer);

-- save_state --
-- Write one chunk of a config's state.
select cerebro_private.save_state(%(run_id)s::integer, %(mst_key)s::integer, %(part)s::text, %(chunk)s::integer
                                , %(data)s::bytea);

-- load_state --
-- A config's state in chunks.
select s.part, s.chunk, s.data from cerebro_private.load_state(%(run_id)s::integer, %(mst_key)s::integer) s;

-- copy_state --
-- A config's state in chunks, as binary COPY.
copy (select s.part, s.chunk, s.data
        from cerebro_private.load_state(%(run_id)s::integer, %(mst_key)s::integer) s
       order by s.part, s.chunk) to stdout (format binary);

-- may_stage --
-- Whether this role may make temporary tables.
select pg_catalog.has_database_privilege(pg_catalog.current_database(), 'temporary') as allowed;

-- make_stage --
-- Where chunks arrive by COPY, before they are handed to the catalog.
select cerebro_private.make_stage();

-- stage_state --
-- Chunks as binary COPY.
copy pg_temp.cerebro_stage (part, chunk, data) from stdin (format binary);

-- save_staged --
-- Hand the chunks that arrived to the catalog.
select cerebro_private.save_staged(%(run_id)s::integer, %(mst_key)s::integer);

-- save_hop --
-- Record a finished hop with its event.
select cerebro_private.save_hop(
           %(run_id)s::integer, %(mst_key)s::integer, %(epoch)s::integer, %(segment_id)s::integer
         , %(row_count)s::bigint, %(loss)s::float8, %(metric)s::float8
         , %(validation_rows)s::bigint, %(validation_loss)s::float8, %(validation_metric)s::float8
         , %(train_seconds)s::float8, %(validate_seconds)s::float8, %(data_seconds)s::float8
         , %(hop_seconds)s::float8, %(start_seconds)s::float8, %(state_bytes)s::bigint, %(seconds)s::float8);

-- save_profile --
-- Where the time of a hop went.
select cerebro_private.save_profile(
           %(run_id)s::integer, %(mst_key)s::integer, %(epoch)s::integer, %(segment_id)s::integer
         , %(phases)s::text[], %(calls)s::bigint[], %(seconds)s::float8[]);

-- epoch_hops --
-- How many hops of a config are committed in an epoch.
select count(*) as hops from cerebro.hop h
 where h.run_id = %(run_id)s::integer and h.mst_key = %(mst_key)s::integer and h.epoch = %(epoch)s::integer;

-- settle_state --
-- Wait until a session that writes a config's state has committed or rolled back.
select count(*) as chunks from cerebro_private.load_state(%(run_id)s::integer, %(mst_key)s::integer);

-- finished_hop --
-- A hop when it is committed: how long it took, and whether its loss stopped being a number.
select extract(epoch from h.finished_at - h.started_at)::float8 as seconds
     , coalesce(h.loss in ('NaN', 'Infinity', '-Infinity'), false) as diverged
  from cerebro.hop h
 where h.run_id = %(run_id)s::integer and h.mst_key = %(mst_key)s::integer
   and h.epoch = %(epoch)s::integer and h.segment_id = %(segment_id)s::integer;

-- status --
-- One run as its owner sees it.
select r.run_id, r.status, r.error, r.source_table, r.model_output_table, r.num_iterations, r.strategy
     , r.coordinator_pid, r.ranking
  from cerebro.run r where r.run_id = %(run_id)s::integer;

-- progress --
-- How far the caller's runs are; one run, or all when run_id is NULL.
select p.run_id, p.name, p.status, p.hops_done, p.hops_total, p.percent::float8 as percent, p.seconds::float8 as seconds
     , p.seconds_left::float8 as seconds_left, p.rows_per_second::float8 as rows_per_second
     , p.best_mst_key, p.best_metric, p.best_loss, p.error
  from cerebro.progress p
 where %(run_id)s::integer is null or p.run_id = %(run_id)s::integer
 order by p.run_id;

-- forget_run --
-- Remove a run with its states and history.
select cerebro_private.forget_run(%(run_id)s::integer);
