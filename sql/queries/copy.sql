-- all --
-- Every buffer of a segment in order.
select p.buffer_id::bigint as buffer_id, {columns}
  from {packed} p
 where %(dist_key)s::integer is null or p."__dist_key__" = %(dist_key)s::integer
 order by p.buffer_id;

-- some --
-- The buffers that have a place, in the order of their places; the first place is that of buffer first. No join, which
-- on Greenplum would ask every segment.
select p.buffer_id::bigint as buffer_id, {columns}
  from {packed} p
 where (%(dist_key)s::integer is null or p."__dist_key__" = %(dist_key)s::integer)
   and (%(places)s::integer[])[p.buffer_id - %(first)s + 1] > 0
 order by (%(places)s::integer[])[p.buffer_id - %(first)s + 1];

-- copied --
-- Rows past cursors.
copy ({rows}) to stdout with (format binary);

-- cursor --
-- Have rows ready on the segments that hold them. Without a sub-select the coordinator would put them in order.
declare cerebro_rows parallel retrieve cursor for select * from ({rows}) r;

-- endpoints --
-- Where they can be had, and by which word.
select e.gp_segment_id as segment, e.hostname, e.port, e.username, e.auth_token, e.endpointname as endpoint
  from pg_catalog.gp_get_session_endpoints() e where e.cursorname = 'cerebro_rows';

-- close --
-- Give the rows up.
close cerebro_rows;

-- retrieve --
-- Some of them, in a session with their segment.
retrieve {count} from endpoint {endpoint};

-- retrieved --
-- Raise what went wrong on the segment.
select pg_catalog.gp_wait_parallel_retrieve_cursor('cerebro_rows', -1);
