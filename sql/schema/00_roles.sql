-- What must be there first: a superuser, PL/Python, the roles and the schemas.

do $body$
begin
    if not (select r.rolsuper from pg_catalog.pg_roles r where r.rolname = current_user) then
        raise exception 'cerebro-db is installed by a superuser, and role % is none', quote_ident(current_user)
              using errcode = 'insufficient_privilege'
                  , hint = 'ask the administrator of the server to run: cerebro-db install --dsn ...';
    end if;
end
$body$;

do $body$
declare
    major text := current_setting('server_version_num')::integer / 10000;
begin
    create extension if not exists plpython3u;
exception when undefined_file or feature_not_supported then
    raise exception 'the server has no language plpython3u'
          using errcode = 'undefined_file'
              , hint = 'install it on the server''s host; on Debian: apt-get install postgresql-plpython3-' || major;
end
$body$;

do $body$
declare
    missing text;
begin
    for missing in
        select w.role from unnest(array['cerebro_user', 'cerebro_admin']) as w (role)
         where not exists (select 1 from pg_catalog.pg_roles r where r.rolname = w.role)
    loop
        execute format('create role %I nologin', missing);
    end loop;
end
$body$;
grant cerebro_user to cerebro_admin;

create schema if not exists cerebro;
comment on schema cerebro is 'Deep-learning model selection: functions and views for users.';
create schema if not exists cerebro_private;
comment on schema cerebro_private is 'Tables and functions that cerebro''s own functions use; nothing here is for users.';

create table if not exists cerebro_private.version (
    version text primary key
  , installed_at timestamptz not null default clock_timestamp()
);
comment on table cerebro_private.version is 'The version of cerebro-db installed in this database; one row.';

delete from cerebro_private.version where version <> '0.1.0';
insert into cerebro_private.version (version)
select '0.1.0' where not exists (select 1 from cerebro_private.version);

create or replace function cerebro_private.version() returns text
language sql stable security definer set search_path = pg_catalog, pg_temp as $sql$
    select v.version from cerebro_private.version v
$sql$;
comment on function cerebro_private.version() is 'The version installed in this database.';
