-- all --
-- Every buffer of a segment in order, past cursors.
copy (select p.buffer_id::bigint, {columns}
        from {packed} p
       where %(dist_key)s::bigint is null or p."__dist_key__" = %(dist_key)s::bigint
       order by p.buffer_id) to stdout with (format binary);

-- some --
-- The buffers of these numbers, in the order given, past cursors.
copy (select p.buffer_id::bigint, {columns}
        from unnest(%(buffer_ids)s::bigint[]) with ordinality as wanted (buffer_id, place)
        join {packed} p on p.buffer_id = wanted.buffer_id
                       and (%(dist_key)s::bigint is null or p."__dist_key__" = %(dist_key)s::bigint)
       order by wanted.place) to stdout with (format binary);
