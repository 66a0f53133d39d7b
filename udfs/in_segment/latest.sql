-- On Greenplum, what runs in the process of the segment that owns a buffer: its trainer, told by messages.
create or replace function cerebro_private.in_segment(head text, buffer_id integer, data bytea[]) returns bytea[]
language plpython3u volatile as $python$
    from cerebro_db.server import segment
    return segment.in_segment(plpy, GD, head, buffer_id, data)
$python$;
comment on function cerebro_private.in_segment(text, integer, bytea[]) is
    'Tell the trainer in this process a message (JSON, and bytes beside it); its answer of the same form, or NULL.';
revoke all on function cerebro_private.in_segment(text, integer, bytea[]) from public;
grant execute on function cerebro_private.in_segment(text, integer, bytea[]) to cerebro_user;
