-- The life of a run in the catalog.

create or replace function cerebro_private.start_run(
    source_table text, packed_table text, validation_table text, model_output_table text
  , model_selection_table text, num_iterations integer, strategy text, ranking text, plan json
  , name text, description text) returns integer
language sql volatile security definer set search_path = pg_catalog, pg_temp as $sql$
    insert into cerebro_private.run
           ( owner, source_table, packed_table, validation_table, model_output_table, model_selection_table
           , num_iterations, strategy, ranking, plan, name, description)
    values (cerebro_private.caller(), $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
    returning run_id
$sql$;
comment on function cerebro_private.start_run(text, text, text, text, text, integer, text, text, json, text, text) is
    'Record a run of the caller; gives its number.';

create or replace function cerebro_private.add_config(
    run_id integer, mst_key integer, model_id integer, compile_params text, fit_params text
  , model_arch json) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $body$
begin
    perform cerebro_private.require_owner($1);
    insert into cerebro_private.config (run_id, mst_key, model_id, compile_params, fit_params, model_arch)
    values ($1, $2, $3, $4, $5, $6);
    execute format('create table cerebro_private.%I (part text not null, chunk integer not null, data bytea not null)'
                 || cerebro_private.state_storage(), cerebro_private.state_name($1, $2));
    -- Floats do not compress: trying costs time, and out-of-line storage keeps rows small.
    execute format('alter table cerebro_private.%I alter column data set storage external'
                 , cerebro_private.state_name($1, $2));
end
$body$;
comment on function cerebro_private.add_config(integer, integer, integer, text, text, json) is
    'Record a config of a run and make the table that its state hops through.';

create or replace function cerebro_private.add_segment(
    run_id integer, segment_id integer, dist_key integer, row_count bigint) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $body$
begin
    perform cerebro_private.require_owner($1);
    insert into cerebro_private.segment (run_id, segment_id, dist_key, row_count) values ($1, $2, $3, $4);
end
$body$;
comment on function cerebro_private.add_segment(integer, integer, integer, bigint) is 'Record a segment of a run.';

create or replace function cerebro_private.add_event(
    run_id integer, kind text, mst_key integer, epoch integer, segment_id integer
  , seconds double precision, reason text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $body$
begin
    perform cerebro_private.require_owner($1);
    insert into cerebro_private.event (run_id, kind, mst_key, epoch, segment_id, seconds, reason)
    values ($1, $2, $3, $4, $5, $6, $7);
end
$body$;
comment on function cerebro_private.add_event(integer, text, integer, integer, integer, double precision, text) is
    'Append to the log that the scheduler folds.';

create or replace function cerebro_private.events(run_id integer)
returns table (kind text, mst_key integer, epoch integer, segment_id integer, seconds double precision, reason text)
language plpgsql stable :on_coordinator security definer set search_path = pg_catalog, pg_temp as $body$
begin
    perform cerebro_private.require_owner($1);
    return query
        select e.kind, e.mst_key, e.epoch, e.segment_id, e.seconds, e.reason
          from cerebro_private.event e where e.run_id = $1 order by e.event_id;
end
$body$;
comment on function cerebro_private.events(integer) is 'The log of a run in order.';

create or replace function cerebro_private.plan(run_id integer) returns json
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $body$
begin
    perform cerebro_private.require_owner($1);
    return (select r.plan from cerebro_private.run r where r.run_id = $1);
end
$body$;
comment on function cerebro_private.plan(integer) is 'What the run was asked to do, as madlib_mop_fit recorded it.';

create or replace function cerebro_private.claim_run(run_id integer, coordinator_pid integer) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $body$
begin
    perform cerebro_private.require_owner($1);
    -- The lock belongs to the session that calls, and ends with it, however it ends.
    if not pg_try_advisory_lock(cerebro_private.lock_class(), $1) then
        return false;
    end if;
    update cerebro_private.run r
       set coordinator_pid = $2, status = 'running', error = null, trained_at = null, cancel_wished = false
     where r.run_id = $1 and r.status <> 'trained';
    return true;
end
$body$;
comment on function cerebro_private.claim_run(integer, integer) is
    'Become the only coordinator of a run, for as long as the calling session lives.';

create or replace function cerebro_private.release_run(run_id integer) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $body$
begin
    perform cerebro_private.require_owner($1);
    perform pg_advisory_unlock(cerebro_private.lock_class(), $1);
end
$body$;
comment on function cerebro_private.release_run(integer) is
    'No longer coordinate a run that has ended: the end of the session, which would do, can take a while.';

create or replace function cerebro_private.mark_coordinator(run_id integer) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $body$
begin
    perform cerebro_private.require_owner($1);
    perform pg_advisory_xact_lock_shared(cerebro_private.lock_class() + 1, $1);
end
$body$;
comment on function cerebro_private.mark_coordinator(integer) is
    'Let cancel_run find the calling session. A lock and no recorded pid: whoever could name a pid could cancel anyone.';

create or replace function cerebro_private.join_run(run_id integer) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $body$
begin
    perform cerebro_private.require_owner($1);
    perform pg_advisory_lock_shared(cerebro_private.lock_class() + 2, $1);
end
$body$;
comment on function cerebro_private.join_run(integer) is
    'Show, for as long as the calling session lives, that it may still commit hops of the run.';

create or replace function cerebro_private.trainers_gone(run_id integer) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $body$
begin
    perform cerebro_private.require_owner($1);
    begin
        perform pg_advisory_lock(cerebro_private.lock_class() + 2, $1);
    exception when lock_not_available then
        return false;
    end;
    perform pg_advisory_unlock(cerebro_private.lock_class() + 2, $1);
    return true;
end
$body$;
comment on function cerebro_private.trainers_gone(integer) is
    'Wait, as long as lock_timeout allows, until no session that joined the run is left; false when one still is.';

create or replace function cerebro_private.end_run(run_id integer, status text, error text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $body$
declare
    ended timestamptz := clock_timestamp();  -- one for all segments, which each have a copy
begin
    perform cerebro_private.require_owner($1);
    update cerebro_private.run r
       set status = $2, error = $3, coordinator_pid = null, cancel_wished = false
         , trained_at = case when $2 = 'trained' then ended else r.trained_at end
     where r.run_id = $1;
end
$body$;
comment on function cerebro_private.end_run(integer, text, text) is 'Training is over: trained, failed or cancelled.';

create or replace function cerebro_private.end_config(run_id integer, mst_key integer, status text, error text)
returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $body$
begin
    perform cerebro_private.require_owner($1);
    update cerebro_private.config c set status = $3, error = $4 where c.run_id = $1 and c.mst_key = $2;
end
$body$;
comment on function cerebro_private.end_config(integer, integer, text, text) is
    'A config is over: finished, diverged or failed.';

create or replace function cerebro_private.drop_states(run_id integer) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $body$
declare
    mst integer;
begin
    perform cerebro_private.require_owner($1);
    for mst in select c.mst_key from cerebro_private.config c where c.run_id = $1 loop
        execute format('drop table if exists cerebro_private.%I', cerebro_private.state_name($1, mst));
    end loop;
    if cerebro_private.has_rounds($1) then
        execute format('drop table cerebro_private.%I cascade', cerebro_private.round_name($1));
    end if;
end
$body$;
comment on function cerebro_private.drop_states(integer) is 'Drop the tables that the states of a run hop through.';

create or replace function cerebro_private.finish_run(run_id integer) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $body$
begin
    perform cerebro_private.drop_states($1);
    insert into cerebro_private.delivery (run_id) values ($1);
end
$body$;
comment on function cerebro_private.finish_run(integer) is
    'The outputs are written: drop the hopping states. In the caller''s transaction, so that a rollback keeps them.';

create or replace function cerebro_private.forget_run(run_id integer) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $body$
begin
    perform cerebro_private.require_owner($1);
    if cerebro_private.is_coordinated($1) then
        raise exception 'run % is still running; cancel it first: select madlib_mop_cancel(%)', $1, $1
              using errcode = 'object_in_use';
    end if;
    perform cerebro_private.drop_states($1);
    -- One by one: Greenplum writes foreign keys down and does not follow them.
    delete from cerebro_private.profile p where p.run_id = $1;
    delete from cerebro_private.hop h where h.run_id = $1;
    delete from cerebro_private.event e where e.run_id = $1;
    delete from cerebro_private.segment s where s.run_id = $1;
    delete from cerebro_private.config c where c.run_id = $1;
    delete from cerebro_private.delivery d where d.run_id = $1;
    delete from cerebro_private.run r where r.run_id = $1;
end
$body$;
comment on function cerebro_private.forget_run(integer) is 'Remove a run with its states and history.';

create or replace function cerebro_private.cancel_run(run_id integer) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $body$
begin
    perform cerebro_private.require_owner($1);
    if not cerebro_private.is_coordinated($1) then
        return false;
    end if;
    perform pg_cancel_backend(l.pid)
       from pg_catalog.pg_locks l
      where l.locktype = 'advisory' and l.granted and l.objsubid = 2
        and l.classid = (cerebro_private.lock_class() + 1)::oid and l.objid = $1::oid
        and l.database = (select d.oid from pg_catalog.pg_database d where d.datname = current_database());
    if not found then  -- a coordinator in a client has no statement to cancel: it looks for the wish
        update cerebro_private.run r set cancel_wished = true where r.run_id = $1 and r.status = 'running';
    end if;
    return found;
end
$body$;
comment on function cerebro_private.cancel_run(integer) is
    'Ask the run''s coordinator to end, and cancel its statement where it has one; false when none coordinates.';

create or replace function cerebro_private.cancel_wished(run_id integer) returns boolean
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $body$
begin
    perform cerebro_private.require_owner($1);
    return coalesce((select r.cancel_wished from cerebro_private.run r where r.run_id = $1), false);
end
$body$;
comment on function cerebro_private.cancel_wished(integer) is 'Whether somebody asked to cancel the run.';
