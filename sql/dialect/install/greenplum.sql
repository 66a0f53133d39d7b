-- What Greenplum does its own way when cerebro-db is installed; postgresql.sql sets and creates the same names.

-- Where the rows of a table of the catalog live: a copy on every segment, so that whatever joins them is one slice on
-- one of them. A heap, whatever a default says, since append-only tables have no keys.
\set everywhere 'with (appendonly = false) distributed replicated'

-- Where a function runs that gives rows: on the coordinator, before the rest of its statement. Elsewhere it could read
-- no table.
\set on_coordinator 'execute on initplan'

-- Foreign keys are written down and not enforced here, which the server says of each.
set local client_min_messages = error;

create schema if not exists cerebro_private;

create or replace function cerebro_private.engine() returns text
language sql immutable as $sql$ select 'greenplum'::text $sql$;
comment on function cerebro_private.engine() is 'The engine this database runs on.';

create or replace function cerebro_private.setting(name text) returns text
language plpgsql stable as $body$
begin
    return nullif(current_setting($1), '');
exception when undefined_object then  -- version 6 cannot ask whether there is one
    return null;
end
$body$;
comment on function cerebro_private.setting(text) is 'A setting of the session; NULL when it is not set.';

create or replace function cerebro_private.state_storage() returns text
language sql immutable as $sql$ select ' with (appendonly = false) distributed by (part, chunk)'::text $sql$;
comment on function cerebro_private.state_storage() is 'What a table of hopping state says of where its rows live.';

create or replace function cerebro_private.round_storage() returns text
language sql immutable as $sql$ select ' with (appendonly = false) distributed by (key)'::text $sql$;
comment on function cerebro_private.round_storage() is 'What a table of the states of a round says of where its rows live.';

create or replace function cerebro_private.stage_storage() returns text
language sql immutable as $sql$
    select ' with (appendonly = false) on commit delete rows distributed by (part, chunk)'::text
$sql$;
comment on function cerebro_private.stage_storage() is
    'What the temporary table says by which states are sent: where its rows live, and how long.';

create or replace function cerebro_private.system_identifier() returns bigint
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $body$
declare  -- volatile: else the coordinator would answer for all segments
    start bytea;
begin
    -- Version 6 has no function that tells; it is what the control file begins with.
    if (select r.rolsuper from pg_roles r where r.rolname = current_user) then
        start := pg_read_binary_file('global/pg_control', 0, 8);
        return (select bit_or(get_byte(start, n)::bigint << 8 * n) from generate_series(0, 7) n);
    end if;
    return null;
end
$body$;
comment on function cerebro_private.system_identifier() is
    'Which instance this is, for ever; its mirror is the same. NULL when no superuser installed.';

create or replace function cerebro_private.instances()
returns table (content integer, hostname text, data_directory text, identifier bigint)
language plpgsql stable as $body$
begin
    return query
    select c.content::integer, c.hostname::text, c.datadir::text, i.identifier
      from pg_catalog.gp_segment_configuration c
      join (select g.gp_segment_id as content, cerebro_private.system_identifier() as identifier
              from gp_dist_random('pg_catalog.gp_id') g) i on i.content = c.content
     where c.role = 'p';
end
$body$;
comment on function cerebro_private.instances() is
    'The primaries that hold rows: host, data directory and system identifier of each.';

create or replace function cerebro_private.keys_of_segments(segments integer) returns integer[]
language plpgsql volatile set search_path = pg_catalog, pg_temp as $body$
declare
    primaries integer := (select count(distinct c.content) from gp_segment_configuration c where c.content >= 0);
    tried integer := 8 * $1 + 64;
    found integer[];
begin
    loop
        create temporary table cerebro_probe (key integer) with (appendonly = false) distributed by (key);
        insert into cerebro_probe select generate_series(0, tried - 1);
        select array_agg(s.key order by s.segment) into found
          from (select p.key
                     , (row_number() over (partition by p.gp_segment_id order by p.key) - 1) * primaries
                       + p.gp_segment_id as segment
                  from cerebro_probe p) as s
         where s.segment < $1;
        drop table cerebro_probe;
        exit when cardinality(found) = $1;
        tried := 2 * tried;
    end loop;
    return found;
end
$body$;
comment on function cerebro_private.keys_of_segments(integer) is
    'The __dist_key__ of each of so many segments: on Greenplum segment i lies on primary i modulo their number.';
