-- What PostgreSQL does its own way when cerebro-db is installed; greenplum.sql sets and creates the same names.

-- Where the rows of a table of the catalog live: PostgreSQL has one place.
\set everywhere ''

-- Where a function runs that gives rows: there is one place.
\set on_coordinator ''

create schema if not exists cerebro_private;

create or replace function cerebro_private.engine() returns text
language sql immutable as $sql$ select 'postgresql'::text $sql$;
comment on function cerebro_private.engine() is 'The engine this database runs on.';

create or replace function cerebro_private.setting(name text) returns text
language sql stable as $sql$ select nullif(current_setting($1, true), '') $sql$;
comment on function cerebro_private.setting(text) is 'A setting of the session; NULL when it is not set.';

create or replace function cerebro_private.state_storage() returns text
language sql immutable as $sql$ select ''::text $sql$;
comment on function cerebro_private.state_storage() is 'What a table of hopping state says of where its rows live.';

create or replace function cerebro_private.round_storage() returns text
language sql immutable as $sql$ select ''::text $sql$;
comment on function cerebro_private.round_storage() is 'What a table of the states of a round says of where its rows live.';

create or replace function cerebro_private.stage_storage() returns text
language sql immutable as $sql$ select ' on commit delete rows'::text $sql$;
comment on function cerebro_private.stage_storage() is
    'What the temporary table says by which states are sent: where its rows live, and how long.';

create or replace function cerebro_private.system_identifier() returns bigint
language plpgsql stable as $body$
begin
    return case when has_function_privilege('pg_catalog.pg_control_system()', 'execute')
                then (select s.system_identifier from pg_catalog.pg_control_system() s) end;
end
$body$;
comment on function cerebro_private.system_identifier() is
    'Which server this is, for ever; copies and standbys of it are the same. NULL for who may not ask.';

create or replace function cerebro_private.instances()
returns table (content integer, hostname text, data_directory text, identifier bigint)
language plpgsql stable as $body$
begin
    return query
    select 0, null::text, (select s.setting from pg_catalog.pg_settings s where s.name = 'data_directory')
         , cerebro_private.system_identifier();
end
$body$;
comment on function cerebro_private.instances() is
    'The servers that hold rows, here one: its data directory and its system identifier, NULL for who may not know.';

create or replace function cerebro_private.keys_of_segments(segments integer) returns integer[]
language sql immutable as $sql$ select array_agg(s.key order by s.key) from generate_series(0, $1 - 1) as s (key) $sql$;
comment on function cerebro_private.keys_of_segments(integer) is
    'The __dist_key__ of each of so many segments: on Greenplum segment i lies on primary i modulo their number.';
