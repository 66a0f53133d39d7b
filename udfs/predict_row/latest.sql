-- Predict rows in the process of the segment on which they lie, a block at a time (Greenplum).
create or replace function cerebro_private.predict_row(model text, id text, inputs bytea[], last boolean) returns text[]
language plpython3u volatile as $python$
    from cerebro_db.server import predict
    return predict.predict_row(plpy, GD, model, id, inputs, last)
$python$;
comment on function cerebro_private.predict_row(text, text, bytea[], boolean) is
    'Have a row wait for its answer; gives arrays, as texts, of the ids and answers of all rows that waited when they '
    'are enough or `last` says that no more will come, else NULL.';
revoke all on function cerebro_private.predict_row(text, text, bytea[], boolean) from public;
grant execute on function cerebro_private.predict_row(text, text, bytea[], boolean) to cerebro_user;
