-- buffers --
-- Rows of each buffer of a segment, or of the whole table when dist_key is NULL.
select p.buffer_id, p.{shape}[1] as rows
  from {packed} p
 where %(dist_key)s::bigint is null or p."__dist_key__" = %(dist_key)s::bigint
 order by p.buffer_id;

-- read_all --
-- Every buffer of a segment in order.
select {columns}
  from {packed} p
 where %(dist_key)s::bigint is null or p."__dist_key__" = %(dist_key)s::bigint
 order by p.buffer_id;

-- read_some --
-- The buffers of these numbers, in the order given.
select {columns}
  from unnest(%(buffer_ids)s::bigint[]) with ordinality as wanted (buffer_id, place)
  join {packed} p on p.buffer_id = wanted.buffer_id
                 and (%(dist_key)s::bigint is null or p."__dist_key__" = %(dist_key)s::bigint)
 order by wanted.place;

-- show_phase --
-- What this session does, as pg_stat_activity shows it.
select pg_catalog.set_config('application_name', %(phase)s::text, false);
