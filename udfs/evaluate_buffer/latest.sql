-- Evaluate a buffer of a packed table in the process of the segment where it lies (Greenplum).
create or replace function cerebro_private.evaluate_buffer(model text, rows integer, columns bytea[]) returns float8[]
language plpython3u volatile as $python$
    from cerebro_db.server import predict
    return predict.evaluate_buffer(plpy, GD, model, rows, columns)
$python$;
comment on function cerebro_private.evaluate_buffer(text, integer, bytea[]) is
    'Rows, loss and metric of a buffer, summed, by the model that the coordinator has sent to the segments.';
revoke all on function cerebro_private.evaluate_buffer(text, integer, bytea[]) from public;
grant execute on function cerebro_private.evaluate_buffer(text, integer, bytea[]) to cerebro_user;
