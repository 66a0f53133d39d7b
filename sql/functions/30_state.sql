-- The hop: a config's state and the event that it finished, in one transaction of a training session.
-- Every hop empties the config's table by TRUNCATE and fills it again, so that space comes back at
-- commit although the caller's open transaction holds back vacuum.

create or replace function cerebro_private.state_name(run_id integer, mst_key integer) returns text
language sql immutable as $sql$ select 'state_' || $1 || '_' || $2 $sql$;
comment on function cerebro_private.state_name(integer, integer) is 'Name of the table a config''s state hops through.';

create or replace function cerebro_private.clear_state(run_id integer, mst_key integer) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $body$
begin
    perform cerebro_private.require_owner($1);
    execute format('truncate table cerebro_private.%I', cerebro_private.state_name($1, $2));
    if cerebro_private.has_rounds($1) then
        execute format('delete from cerebro_private.%I r where r.mst_key = $1', cerebro_private.round_name($1)) using $2;
    end if;
end
$body$;
comment on function cerebro_private.clear_state(integer, integer) is 'Empty a config''s state before the new one is written.';

create or replace function cerebro_private.save_state(
    run_id integer, mst_key integer, part text, chunk integer, data bytea) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $body$
begin
    perform cerebro_private.require_owner($1);
    execute format('insert into cerebro_private.%I (part, chunk, data) values ($1, $2, $3)'
                 , cerebro_private.state_name($1, $2)) using $3, $4, $5;
end
$body$;
comment on function cerebro_private.save_state(integer, integer, text, integer, bytea) is
    'Write one chunk of a part (weights or rest) of a config''s state.';

-- A client sends chunks by COPY into a temporary table of its session, from where one statement takes them over: on
-- Greenplum they stay on their segment. The table belongs to the owner of these functions. One of the caller's own
-- could have columns whose casts, or be a view whose functions, would run with that owner's rights.

create or replace function cerebro_private.make_stage() returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $body$
begin
    if to_regclass('pg_temp.cerebro_stage') is null then
        execute 'create temporary table cerebro_stage (part text not null, chunk integer not null, data bytea not null)'
             || cerebro_private.stage_storage();
        alter table pg_temp.cerebro_stage alter column data set storage external;
        grant insert on pg_temp.cerebro_stage to public;
    end if;
end
$body$;
comment on function cerebro_private.make_stage() is 'Make the temporary table by which a client sends states, once a session.';

create or replace function cerebro_private.save_staged(run_id integer, mst_key integer) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $body$
begin
    perform cerebro_private.require_owner($1);
    perform 1 from pg_class c
      where c.oid = 'pg_temp.cerebro_stage'::regclass and c.relkind = 'r'
        and c.relowner = (select r.oid from pg_roles r where r.rolname = current_user);
    if not found then
        raise exception 'temporary table cerebro_stage is not that of cerebro-db; drop it and run again'
              using errcode = 'insufficient_privilege';
    end if;
    execute format('insert into cerebro_private.%I (part, chunk, data) select s.part, s.chunk, s.data'
                 || '  from only pg_temp.cerebro_stage s', cerebro_private.state_name($1, $2));
    delete from only pg_temp.cerebro_stage;  -- the next config's chunks come in the same transaction
end
$body$;
comment on function cerebro_private.save_staged(integer, integer) is
    'Write the chunks that this transaction has sent; they are the state of a config.';

create or replace function cerebro_private.load_state(run_id integer, mst_key integer)
returns table (part text, chunk integer, data bytea)
language plpgsql stable :on_coordinator security definer set search_path = pg_catalog, pg_temp as $body$
begin
    perform cerebro_private.require_owner($1);
    return query execute format('select s.part, s.chunk, s.data from %s s order by s.part, s.chunk'
                              , cerebro_private.state_rows($1, $2));
end
$body$;
comment on function cerebro_private.load_state(integer, integer) is
    'The chunks of a config''s state in order; no rows before its first hop.';

create or replace function cerebro_private.save_hop(
    run_id integer, mst_key integer, epoch integer, segment_id integer
  , row_count bigint, loss double precision, metric double precision
  , validation_rows bigint, validation_loss double precision, validation_metric double precision
  , train_seconds double precision, validate_seconds double precision, data_seconds double precision
  , hop_seconds double precision, start_seconds double precision, state_bytes bigint, seconds double precision)
returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $body$
begin
    perform cerebro_private.require_owner($1);
    insert into cerebro_private.hop
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, pg_backend_pid()
          , clock_timestamp() - $17 * interval '1 second', clock_timestamp());
    insert into cerebro_private.event (run_id, kind, mst_key, epoch, segment_id, seconds)
    values ($1, 'hop_finished', $2, $3, $4, $17);
end
$body$;
comment on function cerebro_private.save_hop(
    integer, integer, integer, integer, bigint, double precision, double precision
  , bigint, double precision, double precision, double precision, double precision, double precision
  , double precision, double precision, bigint, double precision) is
    'Record a finished hop and its event; a second record of the same hop is refused by the primary key.';

create or replace function cerebro_private.save_profile(
    run_id integer, mst_key integer, epoch integer, segment_id integer
  , phases text[], calls bigint[], seconds double precision[])
returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $body$
begin
    perform cerebro_private.require_owner($1);
    insert into cerebro_private.profile (run_id, mst_key, epoch, segment_id, phase, calls, seconds)
    select $1, $2, $3, $4, s.phase, s.calls, s.seconds from unnest($5, $6, $7) as s (phase, calls, seconds);
end
$body$;
comment on function cerebro_private.save_profile(
    integer, integer, integer, integer, text[], bigint[], double precision[]) is
    'Record where the time of a finished hop went, phase by phase.';

create or replace function cerebro_private.final_state(run_id integer)
returns table (mst_key integer, model_arch json, model_weights bytea, optimizer_state bytea)
language plpgsql volatile :on_coordinator security definer set search_path = pg_catalog, pg_temp as $body$
declare
    config record;
begin
    perform cerebro_private.require_owner($1);
    for config in select c.mst_key, c.model_arch from cerebro_private.config c
                   where c.run_id = $1 order by c.mst_key loop
        mst_key := config.mst_key;
        model_arch := config.model_arch;
        execute format('select string_agg(s.data, '''' order by s.chunk) filter (where s.part = ''weights'')'
                    || '     , string_agg(s.data, '''' order by s.chunk) filter (where s.part = ''rest'')'
                    || '  from %s s', cerebro_private.state_rows($1, config.mst_key))
           into model_weights, optimizer_state;
        if model_weights is not null then
            return next;
        end if;
    end loop;
end
$body$;
comment on function cerebro_private.final_state(integer) is
    'Weights and the rest of the state (optimizer, schedule, RNG, counters) of every config, each as safetensors.';
