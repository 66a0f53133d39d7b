-- The main job: train every config of a selection table over the segments of a packed table.
create or replace function cerebro.madlib_mop_fit(
    source_table text
  , model_output_table text
  , model_selection_table text
  , num_iterations integer
  , use_gpus boolean default false
  , validation_table text default null
  , metrics_compute_frequency integer default null
  , warm_start boolean default false
  , name text default null
  , description text default null
  , use_caching boolean default true
  , strategy text default null
  , options jsonb default null
  , out run_id integer
  , out status text
  , out configs integer
  , out best_mst_key integer
  , out best_metric double precision
  , out seconds double precision)
language plpython3u volatile as $python$
    from cerebro_db.server import fit
    return fit.fit(
        plpy, source_table, model_output_table, model_selection_table, num_iterations, use_gpus, validation_table,
        metrics_compute_frequency, warm_start, name, description, use_caching, strategy, options)
$python$;
comment on function cerebro.madlib_mop_fit(
    text, text, text, integer, boolean, text, integer, boolean, text, text, boolean, text, jsonb) is
    'Train all configs of a selection table by Model Hopper Parallelism; writes <out>, <out>_info and <out>_summary.';
revoke all on function cerebro.madlib_mop_fit(
    text, text, text, integer, boolean, text, integer, boolean, text, text, boolean, text, jsonb) from public;
grant execute on function cerebro.madlib_mop_fit(
    text, text, text, integer, boolean, text, integer, boolean, text, text, boolean, text, jsonb) to cerebro_user;
