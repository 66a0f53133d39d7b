-- Packs a validation table as its training table was: same encoding, classes, segments and seed.
create or replace function cerebro.validation_preprocessor_dl(
    source_table text
  , output_table text
  , dependent_varname text
  , independent_varname text
  , training_preprocessor_table text
  , buffer_size integer default null
  , distribution_rules text default null
) returns void
language plpython3u volatile as $python$
    from cerebro_db.server import packing
    return packing.validation_preprocessor_dl(
        plpy, source_table, output_table, dependent_varname, independent_varname
      , training_preprocessor_table, buffer_size, distribution_rules)
$python$;
comment on function cerebro.validation_preprocessor_dl(text, text, text, text, text, integer, text) is
    'Pack a validation table like its training table; columns map by position.';
revoke all on function cerebro.validation_preprocessor_dl(text, text, text, text, text, integer, text) from public;
grant execute on function cerebro.validation_preprocessor_dl(text, text, text, text, text, integer, text) to cerebro_user;
