-- Loss and metric of one config of a fit over a packed table.
create or replace function cerebro.madlib_mop_evaluate(
    model_table text
  , test_table text
  , output_table text
  , use_gpus boolean default false
  , mst_key integer default null) returns void
language plpython3u volatile as $python$
    from cerebro_db.server import predict
    return predict.evaluate(plpy, model_table, test_table, output_table, use_gpus, mst_key)
$python$;
comment on function cerebro.madlib_mop_evaluate(text, text, text, boolean, integer) is
    'Evaluate one config of a fit on a table packed like its training table; writes one row: loss, metric, metrics_type, '
    'loss_type, mst_key, rows. mst_key NULL takes the best config: by the metric when all configs report the same one, '
    'else by loss; of validation rows when the fit had them.';
revoke all on function cerebro.madlib_mop_evaluate(text, text, text, boolean, integer) from public;
grant execute on function cerebro.madlib_mop_evaluate(text, text, text, boolean, integer) to cerebro_user;
