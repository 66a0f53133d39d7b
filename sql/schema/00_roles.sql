-- What must be there first: the rights of the installer, the roles and the schemas.

do $body$
declare
    foreign_owner text;
    roles integer := (select count(*) from pg_catalog.pg_roles r where r.rolname in ('cerebro_user', 'cerebro_admin'));
begin
    if not (select pg_has_role(d.datdba, 'usage') from pg_catalog.pg_database d where d.datname = current_database()) then
        raise exception 'cerebro-db is installed by a superuser or the owner of the database, and role % is neither'
                      , quote_ident(current_user)
              using errcode = 'insufficient_privilege'
                  , hint = 'ask the administrator of the server to run: cerebro-db install --dsn ...';
    end if;
    select pg_get_userbyid(n.nspowner) into foreign_owner
      from pg_catalog.pg_namespace n
     where n.nspname in ('cerebro', 'cerebro_private') and not pg_has_role(n.nspowner, 'usage');
    if found then
        raise exception 'schemas cerebro and cerebro_private belong to role %, which installed them, and role % is no member'
                      , quote_ident(foreign_owner), quote_ident(current_user)
              using errcode = 'insufficient_privilege'
                  , hint = 'install as that role';
    end if;
    if roles < 2 and not (select r.rolcreaterole or r.rolsuper from pg_catalog.pg_roles r where r.rolname = current_user) then
        raise exception 'the roles cerebro_user and cerebro_admin are missing, and role % may not create roles'
                      , quote_ident(current_user)
              using errcode = 'insufficient_privilege'
                  , hint = 'have an administrator run: create role cerebro_user; create role cerebro_admin;'
                        || ' grant cerebro_user to cerebro_admin';
    end if;
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
    -- From PostgreSQL 16 on only those who have ADMIN on a role may grant it: not every installer has.
    if not exists (select 1 from pg_catalog.pg_auth_members m
                    where m.roleid = (select r.oid from pg_catalog.pg_roles r where r.rolname = 'cerebro_user')
                      and m.member = (select r.oid from pg_catalog.pg_roles r where r.rolname = 'cerebro_admin')) then
        grant cerebro_user to cerebro_admin;
    end if;
end
$body$;

create schema if not exists cerebro;
comment on schema cerebro is 'Deep-learning model selection: functions and views for users.';
create schema if not exists cerebro_private;
comment on schema cerebro_private is 'Tables and functions that cerebro''s own functions use; nothing here is for users.';
