-- warm_up --
-- First imports of a training session.
select cerebro_private.warm_up();

-- check_plan --
-- Build every config and push two rows through.
select cerebro_private.check_plan(%(plan)s::text, %(initial)s::text);

-- open_segment --
-- Read the plan and the segment's rows into this session.
select cerebro_private.open_segment(%(run_id)s::integer, %(segment_id)s::integer);

-- train_hop --
-- Train one config over this session's segment.
select cerebro_private.train_hop(%(run_id)s::integer, %(mst_key)s::integer, %(epoch)s::integer
                               , %(segment_id)s::integer, %(last)s::boolean);
