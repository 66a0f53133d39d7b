-- all --
-- Every buffer of a segment in order, past cursors.
copy (select p.buffer_id::bigint, {columns}
        from {packed} p
       where %(dist_key)s::integer is null or p."__dist_key__" = %(dist_key)s::integer
       order by p.buffer_id) to stdout with (format binary);

-- some --
-- The buffers that have a place, in the order of their places; the first place is that of buffer first. No join, which
-- on Greenplum would ask every segment.
copy (select p.buffer_id::bigint, {columns}
        from {packed} p
       where (%(dist_key)s::integer is null or p."__dist_key__" = %(dist_key)s::integer)
         and (%(places)s::integer[])[p.buffer_id - %(first)s + 1] > 0
       order by (%(places)s::integer[])[p.buffer_id - %(first)s + 1]) to stdout with (format binary);
