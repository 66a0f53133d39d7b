-- What PostgreSQL does its own way; the file of another engine creates the same set of names.

create or replace function cerebro_private.engine() returns text
language sql immutable as $sql$ select 'postgresql'::text $sql$;
comment on function cerebro_private.engine() is 'The engine this database runs on.';
