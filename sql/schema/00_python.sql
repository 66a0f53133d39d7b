-- What functions that run in the server need: a superuser, PL/Python, and that nobody else owns what they call.

do $body$
begin
    if not (select r.rolsuper from pg_catalog.pg_roles r where r.rolname = current_user) then
        raise exception 'functions in PL/Python are installed by a superuser, and role % is none', quote_ident(current_user)
              using errcode = 'insufficient_privilege'
                  , hint = 'ask the administrator of the server to run: cerebro-db install --dsn ..., or do without'
                        || ' them: sql/install_without_python.sql';
    end if;
end
$body$;

-- The server says in its own words what it lacks; Greenplum's name the segment too, whose host is what to mend.
do $body$
declare
    major text := current_setting('server_version_num')::integer / 10000;
    greenplum boolean := version() ~ 'Greenplum';
    segment text;
    older text := (select e.name from pg_catalog.pg_available_extensions e where e.name in ('plpythonu', 'plpython2u') limit 1);
begin
    create extension if not exists plpython3u;
exception when undefined_file or feature_not_supported then
    segment := substring(sqlerrm from '\((seg\d+ [^ )]+)');
    raise exception 'the server has no language plpython3u%', coalesce(' on ' || segment, '')
                 || coalesce(', only Python 2 (' || older || ')', '')
          using errcode = 'undefined_file'
              , hint = case when greenplum then 'install the server''s package with Python 3 on every host of the cluster'
                            else 'install it on the server''s host; on Debian: apt-get install postgresql-plpython3-' || major end
                    || '; or do without: sql/install_without_python.sql';
end
$body$;

-- Where another role installed without PL/Python before, all that is there becomes the superuser's: sessions of a
-- superuser will call it.
do $body$
declare
    statement text;
begin
    for statement in
        select format('alter schema %I owner to %I', n.nspname, current_user)
          from pg_catalog.pg_namespace n
         where n.nspname in ('cerebro', 'cerebro_private') and pg_get_userbyid(n.nspowner) <> current_user
         union all
        select format('alter function %s owner to %I', p.oid::regprocedure, current_user)
          from pg_catalog.pg_proc p
          join pg_catalog.pg_namespace n on n.oid = p.pronamespace
         where n.nspname in ('cerebro', 'cerebro_private') and pg_get_userbyid(p.proowner) <> current_user
         union all
        select format('alter %s %I.%I owner to %I', case c.relkind when 'v' then 'view' else 'table' end
                     , n.nspname, c.relname, current_user)
          from pg_catalog.pg_class c
          join pg_catalog.pg_namespace n on n.oid = c.relnamespace
         where n.nspname in ('cerebro', 'cerebro_private') and c.relkind in ('r', 'v')
           and pg_get_userbyid(c.relowner) <> current_user
    loop
        execute statement;
    end loop;
end
$body$;
