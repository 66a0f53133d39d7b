-- warm_up --
-- First imports where a segment will train.
select cerebro_private.warm_up(%(packed)s::text, %(dist_key)s::integer);

-- check_plan --
-- Build every config and push two rows through; the configs to train as one.
select cerebro_private.check_plan(%(plan)s::text, %(initial)s::text);

-- open_segment --
-- Read the plan and the segment's rows into this session.
select cerebro_private.open_segment(%(run_id)s::integer, %(segment_id)s::integer);

-- train_hop --
-- Train a config, or several as one, over this session's segment.
select cerebro_private.train_hop(%(run_id)s::integer, %(mst_keys)s::integer[], %(epoch)s::integer
                               , %(segment_id)s::integer, %(last)s::boolean);

-- open_rounds --
-- Bring every state where a round finds it.
select cerebro_private.open_rounds(%(run_id)s::integer);

-- train_round --
-- Train a hop on every segment that this session has opened.
select cerebro_private.train_round(%(run_id)s::integer, %(hops)s::text);

-- prepare_hop --
-- Plan the query of a hop once per session.
prepare cerebro_hop (integer, integer[], integer, integer, boolean) as
select cerebro_private.train_hop($1, $2, $3, $4, $5);

-- execute_hop --
-- Train a config, or several as one, over this session's segment.
execute cerebro_hop (%(run_id)s, %(mst_keys)s, %(epoch)s, %(segment_id)s, %(last)s);

-- missing_functions --
-- The functions of a training session that this database lacks.
select array(select w.name
               from unnest(array['train_hop', 'open_segment', 'check_plan', 'warm_up', 'in_segment']) with ordinality as w (name, place)
              where not exists (
                    select 1 from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace
                     where n.nspname = 'cerebro_private' and p.proname = w.name)
              order by w.place) as missing
     , current_database()::text as database
     , case when s.number >= 100000 then (s.number / 10000)::text
            else (s.number / 10000) || '.' || mod(s.number / 100, 100) end as major
  from (select current_setting('server_version_num')::integer as number) s;
