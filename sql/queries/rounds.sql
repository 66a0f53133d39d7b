-- start --
-- An empty table for the states that a round makes, and the name by which all states are read.
select cerebro_private.start_round(%(run_id)s::integer) as target
     , cerebro_private.round_name(%(run_id)s::integer) as states;

-- train --
-- Train a round on all segments: states go to the segments that their configs visit, and the process that owns a
-- segment's rows trains, told by the row of its first buffer. Where states are joined decides where: the outer join
-- keeps the packed table in its place, below no motion.
insert into cerebro_private.{target} (key, mst_key, state)
select p."__dist_key__", s.mst_key, cerebro_private.in_segment(s.head, p.buffer_id, s.state)
  from {packed} p
  left join (select h.key, h.mst_key, h.head, r.state
               from cerebro_private.{states} r
               join unnest(%(keys)s::integer[], %(configs)s::integer[], %(heads)s::text[]) as h (key, mst_key, head)
                 on h.mst_key = r.mst_key) s on s.key = p."__dist_key__"
 where p.buffer_id = any (%(buffers)s::integer[])
returning mst_key, convert_from(state[1], 'UTF8') as head;

-- end --
-- Give back the states of before.
select cerebro_private.end_round(%(run_id)s::integer, %(target)s::text, %(configs)s::integer[]);

-- primaries --
-- Primaries of this Greenplum.
select count(distinct c.content)::integer as primaries from pg_catalog.gp_segment_configuration c where c.content >= 0;
