-- The catalog: tables that only functions of this schema touch, so that a run and its models
-- belong to their owner. Users read them through the views of schema cerebro.
-- One run leaves about (configs x segments x epochs) rows; its model states are tables of their
-- own (state_<run>_<mst_key>), which TRUNCATE and DROP give back at once.

create table if not exists cerebro_private.version (
    version text primary key
  , installed_at timestamptz not null default clock_timestamp()
) :everywhere;
comment on table cerebro_private.version is 'The version of cerebro-db installed in this database; one row.';

delete from cerebro_private.version where version <> '0.1.0';
insert into cerebro_private.version (version)
select '0.1.0' where not exists (select 1 from cerebro_private.version);

create or replace function cerebro_private.version() returns text
language sql stable security definer set search_path = pg_catalog, pg_temp as $sql$
    select v.version from cerebro_private.version v
$sql$;
comment on function cerebro_private.version() is 'The version installed in this database.';

create table if not exists cerebro_private.run (
    run_id serial primary key
  , owner name not null
  , name text
  , description text
  , source_table text not null
  , packed_table text not null
  , validation_table text
  , model_output_table text not null
  , model_selection_table text not null
  , num_iterations integer not null
  , strategy text not null
  , ranking text not null default 'loss' check (ranking in ('metric_higher', 'metric_lower', 'loss'))
  , plan json not null
  , status text not null default 'running'
        check (status in ('running', 'trained', 'failed', 'cancelled'))
  , error text
  , coordinator_pid integer
  , cancel_wished boolean not null default false
  , started_at timestamptz not null default clock_timestamp()
  , trained_at timestamptz
) :everywhere;
do $body$
begin  -- an installation of before has the table without it
    if not exists (select 1 from pg_catalog.pg_attribute a
                    where a.attrelid = 'cerebro_private.run'::regclass and a.attname = 'cancel_wished') then
        alter table cerebro_private.run add column cancel_wished boolean not null default false;
    end if;
end
$body$;
comment on column cerebro_private.run.cancel_wished is
    'Somebody asked to cancel the run; its coordinator looks once a second.';
comment on table cerebro_private.run is 'One model selection: a set of configs over one packed table.';
comment on column cerebro_private.run.plan is 'All that a resume needs: layout, configs, options, versions.';
comment on column cerebro_private.run.ranking is
    'How configs are compared: by their metric (the validation one when there is one), or by loss when metrics are absent or differ.';
comment on column cerebro_private.run.status is
    'running, trained, failed or cancelled; a running run without a coordinator shows as interrupted, one in delivery as finished.';

create table if not exists cerebro_private.delivery (
    run_id integer primary key references cerebro_private.run on delete cascade
  , finished_at timestamptz not null default clock_timestamp()
) :everywhere;
do $body$
begin  -- an installation of before has it in the run
    if exists (select 1 from pg_catalog.pg_attribute a
                where a.attrelid = 'cerebro_private.run'::regclass and a.attname = 'finished_at') then
        insert into cerebro_private.delivery (run_id, finished_at)
        select r.run_id, r.finished_at from cerebro_private.run r where r.status = 'finished';
        update cerebro_private.run set status = 'trained' where status = 'finished';
    end if;
end
$body$;
comment on table cerebro_private.delivery is
    'Runs whose outputs are written, by the transaction that wrote them: an UPDATE of the run there would hold up all runs until it ends, where updates lock the table (Greenplum 6).';

create table if not exists cerebro_private.config (
    run_id integer not null references cerebro_private.run on delete cascade
  , mst_key integer not null
  , model_id integer not null
  , compile_params text not null
  , fit_params text not null
  , model_arch json not null
  , status text not null default 'waiting'
        check (status in ('waiting', 'finished', 'diverged', 'failed'))
  , error text
  , primary key (run_id, mst_key)
) :everywhere;
comment on table cerebro_private.config is 'One architecture with one set of hyper-parameters in a run.';

create table if not exists cerebro_private.segment (
    run_id integer not null references cerebro_private.run on delete cascade
  , segment_id integer not null
  , dist_key integer not null
  , row_count bigint not null
  , primary key (run_id, segment_id)
) :everywhere;
comment on table cerebro_private.segment is 'Where a part of the rows of a run lives; segments without rows are left out.';

create table if not exists cerebro_private.event (
    run_id integer not null references cerebro_private.run on delete cascade
  , event_id bigserial
  , kind text not null
        check (kind in ('config_added', 'config_stopped', 'segment_up', 'segment_down', 'hop_finished', 'hop_failed'))
  , mst_key integer
  , epoch integer
  , segment_id integer
  , seconds double precision
  , reason text
  , happened_at timestamptz not null default clock_timestamp()
  , primary key (run_id, event_id)
) :everywhere;
comment on table cerebro_private.event is 'The log that the scheduler folds: resuming a run is replaying it in order of event_id.';
comment on column cerebro_private.event.epoch is 'Epoch of the hop, from 1; for config_added the number of epochs asked for.';
comment on column cerebro_private.event.seconds is 'hop_finished: duration of the hop [s].';

create table if not exists cerebro_private.hop (
    run_id integer not null references cerebro_private.run on delete cascade
  , mst_key integer not null
  , epoch integer not null
  , segment_id integer not null
  , rows bigint not null
  , loss double precision
  , metric double precision
  , validation_rows bigint
  , validation_loss double precision
  , validation_metric double precision
  , train_seconds double precision not null
  , validate_seconds double precision not null
  , data_seconds double precision not null
  , hop_seconds double precision not null
  , start_seconds double precision not null
  , state_bytes bigint not null
  , session_pid integer not null
  , started_at timestamptz not null
  , finished_at timestamptz not null default clock_timestamp()
  , primary key (run_id, mst_key, epoch, segment_id)
) :everywhere;
comment on table cerebro_private.hop is 'Finished hops: one config visiting one segment once in one epoch.';
comment on column cerebro_private.hop.loss is 'Mean training loss over the rows of this hop, from the training pass itself.';
comment on column cerebro_private.hop.metric is 'Mean training metric over the rows of this hop; NULL without a metric.';
comment on column cerebro_private.hop.validation_loss is 'Mean validation loss; only on the last hop of an epoch that validates.';
comment on column cerebro_private.hop.data_seconds is 'Reading and decoding rows [s].';
comment on column cerebro_private.hop.hop_seconds is 'Moving state in and out [s].';
comment on column cerebro_private.hop.start_seconds is 'Building module and optimizer, first imports [s].';

create table if not exists cerebro_private.profile (
    run_id integer not null references cerebro_private.run on delete cascade
  , mst_key integer not null
  , epoch integer not null
  , segment_id integer not null
  , phase text not null
  , calls bigint not null
  , seconds double precision not null
  , primary key (run_id, mst_key, epoch, segment_id, phase)
) :everywhere;
comment on table cerebro_private.profile is 'Where the time of finished hops went, of runs with option profile.';
comment on column cerebro_private.profile.phase is 'What was done: one of phases.PHASES.';
comment on column cerebro_private.profile.seconds is
    'Time of the phase in this hop [s]; of configs that were trained as one the share of each.';

create table if not exists cerebro_private.packed (
    packed_table oid primary key
  , source_table oid not null
  , fingerprint text not null
  , request text not null
  , owner name not null
  , created_at timestamptz not null default clock_timestamp()
) :everywhere;
comment on table cerebro_private.packed is 'Packed copies that madlib_mop_fit made itself, reused while the source is unchanged.';
comment on column cerebro_private.packed.fingerprint is 'Count and hash over row versions of the source; see packing.fingerprint.';
comment on column cerebro_private.packed.request is 'Columns and options that the copy was packed with, as JSON.';

create table if not exists cerebro_private.factory (
    factory text primary key
  , registered_by name not null
  , registered_at timestamptz not null default clock_timestamp()
) :everywhere;
comment on table cerebro_private.factory is
    'Code that an architecture may name, as package.module:function; only cerebro_admin extends the list.';
