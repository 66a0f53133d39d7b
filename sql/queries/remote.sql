-- first_buffer --
-- The first buffer of a segment: the one row whose scan carries messages to the process that owns it.
select min(p.buffer_id) as buffer_id from {packed} p where p."__dist_key__" = {key};

-- buffers --
-- Rows of each buffer of a segment.
select p.buffer_id, p.{shape}[1] as rows from {packed} p where p."__dist_key__" = {key} order by p.buffer_id;

-- tell --
-- Send a message, with bytes beside it, to the process of the segment that owns a buffer.
select cerebro_private.in_segment(%(head)s::text, p.buffer_id, %(data)s::bytea[]) as answer
  from {packed} p where p."__dist_key__" = {key} and p.buffer_id = {buffer};

-- bring --
-- Send buffers to the process that owns them. Only what is last has an answer.
select q.answer
  from (select cerebro_private.in_segment(%(head)s::text, p.buffer_id, array[{columns}]) as answer
          from {packed} p
         where p."__dist_key__" = {key} and p.buffer_id = any(%(buffers)s::integer[])) q
 where q.answer is not null;

-- settings --
-- What a session needs that sends messages: processes that live as long as it does, though they may be idle; plans
-- that leave values out, which would be packed with the plan for every segment; and the planner that evaluates a
-- function where the rows are. A server may lack one of them.
select pg_catalog.set_config(s.name, w.value, false)
  from (values ('gp_vmem_idle_resource_timeout', '0'), ('plan_cache_mode', 'force_generic_plan')
             , ('optimizer', 'off')) as w (name, value)
  join pg_catalog.pg_settings s on s.name = w.name;

-- forget_copy --
-- Remove the copy that another run of this session has left.
drop table if exists pg_temp.cerebro_validation;
