-- Predict the raw rows of a table with one config of a fit.
create or replace function cerebro.madlib_mop_predict(
    model_table text
  , test_table text
  , id_col text
  , independent_varname text
  , output_table text
  , pred_type text default 'prob'
  , use_gpus boolean default false
  , mst_key integer default null) returns void
language plpython3u volatile as $python$
    from cerebro_db.server import predict
    return predict.predict(
        plpy, model_table, test_table, id_col, independent_varname, output_table, pred_type, use_gpus, mst_key)
$python$;
comment on function cerebro.madlib_mop_predict(text, text, text, text, text, text, boolean, integer) is
    'Predict raw rows (one example per row) with one config of a fit. independent_varname maps to the training columns '
    'by position, NULL takes their names. pred_type: prob (every class), response (the most likely class), a whole '
    'number k (the k most likely), or a number p, 0 <= p < 1 (classes of a probability above p). Writes per row '
    '<id_col>, class_name, class_value, prob and, but for response, rank; classes beyond the labels seen in training '
    '(num_classes) have the value NULL. For a numeric target, whatever of prob and response: <id_col>, class_name, '
    'prediction; for an array target one row per component, its index in component, of loss bce_with_logits the '
    'probability (prob) or 0 and 1 (response). mst_key NULL takes the best config, as in madlib_mop_evaluate.';
revoke all on function cerebro.madlib_mop_predict(text, text, text, text, text, text, boolean, integer) from public;
grant execute on function cerebro.madlib_mop_predict(text, text, text, text, text, text, boolean, integer)
    to cerebro_user;

-- The same for a pred_type that is written as a number, such as 3 or 0.5.
create or replace function cerebro.madlib_mop_predict(
    model_table text
  , test_table text
  , id_col text
  , independent_varname text
  , output_table text
  , pred_type numeric
  , use_gpus boolean default false
  , mst_key integer default null) returns void
language sql volatile as $sql$
    select cerebro.madlib_mop_predict($1, $2, $3, $4, $5, $6::text, $7, $8)
$sql$;
comment on function cerebro.madlib_mop_predict(text, text, text, text, text, numeric, boolean, integer) is
    'Predict raw rows, with pred_type as a number: the k most likely classes, or those of a probability above p.';
revoke all on function cerebro.madlib_mop_predict(text, text, text, text, text, numeric, boolean, integer) from public;
grant execute on function cerebro.madlib_mop_predict(text, text, text, text, text, numeric, boolean, integer)
    to cerebro_user;
