-- What PostgreSQL does its own way when cerebro-db is installed; greenplum.sql sets and creates the same names.

-- Where the rows of a table of the catalog live: PostgreSQL has one place.
\set by_run ''
\set by_version ''
\set by_packed_table ''
\set by_factory ''

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
