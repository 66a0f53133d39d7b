-- Stores a model architecture; the JSON is checked here, so that a slip shows before any training.
create or replace function cerebro.load_model_arch(
    model_arch_table text
  , model_arch json
  , model_weights bytea default null
  , name text default null
  , description text default null
) returns integer
language plpython3u volatile as $python$
    from cerebro_db.server import selection
    return selection.load_model_arch(plpy, model_arch_table, model_arch, model_weights, name, description)
$python$;
comment on function cerebro.load_model_arch(text, json, bytea, text, text) is
    'Adds a model architecture (JSON) to a table, which is made on the first call; gives its model_id.';
revoke all on function cerebro.load_model_arch(text, json, bytea, text, text) from public;
grant execute on function cerebro.load_model_arch(text, json, bytea, text, text) to cerebro_user;
