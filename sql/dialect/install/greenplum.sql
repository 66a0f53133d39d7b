-- What Greenplum does its own way when cerebro-db is installed; postgresql.sql sets and creates the same names.

-- Where the rows of a table of the catalog live: all of a run on one segment. A heap, whatever a default says, since
-- append-only tables have no keys.
\set by_run 'with (appendonly = false) distributed by (run_id)'
\set by_version 'with (appendonly = false) distributed by (version)'
\set by_packed_table 'with (appendonly = false) distributed by (packed_table)'
\set by_factory 'with (appendonly = false) distributed by (factory)'

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
