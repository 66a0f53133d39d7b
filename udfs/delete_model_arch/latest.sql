-- Deletes a model architecture; the table goes with its last one.
create or replace function cerebro.delete_model_arch(model_arch_table text, model_id integer) returns void
language plpython3u volatile as $python$
    from cerebro_db.server import selection
    return selection.delete_model_arch(plpy, model_arch_table, model_id)
$python$;
comment on function cerebro.delete_model_arch(text, integer) is
    'Deletes one model architecture; the table is dropped with its last one.';
revoke all on function cerebro.delete_model_arch(text, integer) from public;
grant execute on function cerebro.delete_model_arch(text, integer) to cerebro_user;
