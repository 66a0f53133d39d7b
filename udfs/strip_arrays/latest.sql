-- Turns arrays as array_send writes them, one after the other, into the bytes of their elements.
create or replace function cerebro_private.strip_arrays(
    data bytea, row_count integer, elements integer, wire text, dtype text
) returns bytea
language plpython3u immutable strict as $python$
    from cerebro_db.server import packing
    return packing.strip_arrays(data, row_count, elements, wire, dtype)
$python$;
comment on function cerebro_private.strip_arrays(bytea, integer, integer, text, text) is
    'Bytes of [row_count, elements] in a NumPy dtype; NULL when an element is NULL or does not fit, or shapes differ.';
revoke all on function cerebro_private.strip_arrays(bytea, integer, integer, text, text) from public;
grant execute on function cerebro_private.strip_arrays(bytea, integer, integer, text, text) to cerebro_user;
