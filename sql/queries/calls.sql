-- Queries of cerebro_db/calls.py: the SQL functions that coordinate in the server.

-- installed --
-- Whether this database has the functions, and its name for the message when not.
select exists (select 1 from pg_catalog.pg_namespace n where n.nspname = 'cerebro') as installed
     , current_database()::text as database

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
