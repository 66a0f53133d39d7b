-- Packs a table of rows for training: checked, shuffled once, cut into buffers and spread over segments.
-- MADlib's names and order; options is {"seed": 0, "nulls": "refuse" | "drop" | "impute", "segments": 4}.
create or replace function cerebro.training_preprocessor_dl(
    source_table text
  , output_table text
  , dependent_varname text
  , independent_varname text
  , buffer_size integer default null
  , normalizing_const double precision default 1.0
  , num_classes integer[] default null
  , distribution_rules text default null
  , options jsonb default null
) returns void
language plpython3u volatile as $python$
    from cerebro_db.server import packing
    return packing.training_preprocessor_dl(
        plpy, source_table, output_table, dependent_varname, independent_varname, buffer_size
      , normalizing_const, num_classes, distribution_rules, options)
$python$;
comment on function cerebro.training_preprocessor_dl(text, text, text, text, integer, double precision, integer[], text, jsonb) is
    'Pack a training table: writes <output_table> (one row per buffer of many examples) and <output_table>_summary.';
revoke all on function cerebro.training_preprocessor_dl(text, text, text, text, integer, double precision, integer[], text, jsonb)
    from public;
grant execute on function cerebro.training_preprocessor_dl(text, text, text, text, integer, double precision, integer[], text, jsonb)
   to cerebro_user;
