-- Who asks, and whether a run is theirs. The functions of this folder are SECURITY DEFINER: they are
-- the only code that touches the catalog, and each checks the owner first.

create or replace function cerebro_private.caller() returns name
language sql stable as $sql$
    -- SET ROLE shows in the setting even inside a SECURITY DEFINER function, where current_user does not.
    select case when current_setting('role') in ('none', '') then session_user
                else current_setting('role')::name end
$sql$;
comment on function cerebro_private.caller() is 'The role whose rights count: the one set by SET ROLE, else the session''s.';

create or replace function cerebro_private.require_owner(run_id integer) returns void
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $body$
declare
    asker name := cerebro_private.caller();
begin
    perform 1 from cerebro_private.run r where r.run_id = $1 and pg_has_role(asker, r.owner, 'member');
    if not found then
        raise exception 'run % does not exist or belongs to another role; cerebro.run lists your runs', $1
              using errcode = 'undefined_object';
    end if;
end
$body$;
comment on function cerebro_private.require_owner(integer) is 'Raises unless the run is the caller''s.';

create or replace function cerebro_private.lock_class() returns integer
language sql immutable as $sql$ select 1128616525 $sql$;
comment on function cerebro_private.lock_class() is
    'First key of the advisory locks (lock_class, run_id) by which a coordinator shows that it lives.';

create or replace function cerebro_private.coordinated_runs() returns integer[]
language plpgsql stable as $body$
begin
    return (select coalesce(array_agg(l.objid::bigint::integer), '{}')
              from pg_catalog.pg_locks l
              join pg_catalog.pg_database d on d.oid = l.database
             where l.locktype = 'advisory' and l.granted and l.objsubid = 2
               and l.classid = cerebro_private.lock_class()::oid and d.datname = current_database());
end
$body$;
comment on function cerebro_private.coordinated_runs() is
    'Runs that a living session coordinates, whoever''s they are. Views ask once, by a sub-select: segments of Greenplum do not know the locks of its coordinator.';

create or replace function cerebro_private.is_coordinated(run_id integer) returns boolean
language plpgsql stable as $body$
begin
    return $1 = any (cerebro_private.coordinated_runs());
end
$body$;
comment on function cerebro_private.is_coordinated(integer) is 'Whether a living session coordinates the run.';

create or replace function cerebro_private.rank(ranking text, metric double precision, loss double precision)
returns double precision
language sql immutable as $sql$
    -- NaN sorts above every number; a diverged config must come last whatever its metric, so it has no rank.
    select case when loss not in ('NaN', 'Infinity', '-Infinity') or loss is null then
           nullif(case ranking when 'metric_higher' then -metric when 'metric_lower' then metric else loss end
                , 'NaN'::double precision) end
$sql$;
comment on function cerebro_private.rank(text, double precision, double precision) is
    'Sort key of a config, smaller is better, NULL when it has no usable value.';
