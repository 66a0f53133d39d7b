-- Rounds on Greenplum: where states rest that one statement trains on all segments. Each row is the whole state of a
-- config, in the form of an answer (cerebro_db/messages.py): JSON that names its chunks, then their bytes. A round
-- writes one table; one whose last row has been written anew is emptied by TRUNCATE, for the reason of 30_state.sql.

create or replace function cerebro_private.round_name(run_id integer) returns text
language sql immutable as $sql$ select 'round_' || $1 $sql$;
comment on function cerebro_private.round_name(integer) is
    'Name of the table whose children hold the states of a run between rounds.';

create or replace function cerebro_private.has_rounds(run_id integer) returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp as $body$
begin
    perform cerebro_private.require_owner($1);
    return exists (select 1 from pg_class c join pg_namespace n on n.oid = c.relnamespace
                    where n.nspname = 'cerebro_private' and c.relname = cerebro_private.round_name($1));
end
$body$;
comment on function cerebro_private.has_rounds(integer) is 'Whether states of a run rest where rounds leave them.';

create or replace function cerebro_private.round_tables(run_id integer) returns text[]
language plpgsql stable set search_path = pg_catalog, pg_temp as $body$
begin
    perform cerebro_private.require_owner($1);
    return (select coalesce(array_agg(c.relname::text order by length(c.relname), c.relname), '{}')
              from pg_inherits i
              join pg_class c on c.oid = i.inhrelid
              join pg_class p on p.oid = i.inhparent
              join pg_namespace n on n.oid = p.relnamespace
             where n.nspname = 'cerebro_private' and p.relname = cerebro_private.round_name($1));
end
$body$;
comment on function cerebro_private.round_tables(integer) is 'The tables that hold the states of a run between rounds.';

create or replace function cerebro_private.state_rows(run_id integer, mst_key integer) returns text
language plpgsql stable set search_path = pg_catalog, pg_temp as $body$
begin
    if not cerebro_private.has_rounds($1) then
        return format('cerebro_private.%I', cerebro_private.state_name($1, $2));
    end if;
    return format('(select t.part, t.chunk, t.data from cerebro_private.%I t union all'
               || ' select c.named ->> 0, (c.named ->> 1)::integer, r.state[c.place + 1]'
               || '   from cerebro_private.%I r cross join lateral json_array_elements('
               || '        convert_from(r.state[1], ''UTF8'')::json -> ''chunks'') with ordinality as c (named, place)'
               || '  where r.mst_key = %s)'
                , cerebro_private.state_name($1, $2), cerebro_private.round_name($1), $2);
end
$body$;
comment on function cerebro_private.state_rows(integer, integer) is
    'What stands behind FROM to read the chunks of a config''s state, wherever it rests.';

create or replace function cerebro_private.add_round_table(run_id integer) returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $body$
declare
    name text := cerebro_private.round_name($1) || '_' || cardinality(cerebro_private.round_tables($1));
begin
    perform cerebro_private.require_owner($1);
    execute format('create table cerebro_private.%I () inherits (cerebro_private.%I)'
                || cerebro_private.round_storage(), name, cerebro_private.round_name($1));
    execute format('alter table cerebro_private.%I alter column state set storage external', name);
    execute format('grant select, insert on cerebro_private.%I to %I', name, cerebro_private.caller());
    return name;
end
$body$;
comment on function cerebro_private.add_round_table(integer) is 'Make a further table for the states of a run; gives its name.';

create or replace function cerebro_private.open_rounds(run_id integer) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $body$
declare
    name text;
    mst integer;
    known boolean;
begin
    perform cerebro_private.require_owner($1);
    if not cerebro_private.has_rounds($1) then
        execute format('create table cerebro_private.%I (key integer not null, mst_key integer not null'
                    || ', state bytea[] not null)' || cerebro_private.round_storage(), cerebro_private.round_name($1));
        perform cerebro_private.add_round_table($1);
    end if;
    -- A member of the owner may go on with the run. These rows are the run's own: whoever may write them may also
    -- call save_state.
    execute format('grant select on cerebro_private.%I to %I', cerebro_private.round_name($1), cerebro_private.caller());
    foreach name in array cerebro_private.round_tables($1) loop
        execute format('grant select, insert on cerebro_private.%I to %I', name, cerebro_private.caller());
    end loop;
    name := cerebro_private.start_round($1);
    for mst in select c.mst_key from cerebro_private.config c where c.run_id = $1 order by c.mst_key loop
        execute format('select exists (select 1 from cerebro_private.%I r where r.mst_key = $1)'
                     , cerebro_private.round_name($1)) into known using mst;
        if not known then
            perform cerebro_private.move_state($1, mst, name);
        end if;
    end loop;
end
$body$;
comment on function cerebro_private.open_rounds(integer) is
    'Let the calling session train rounds of a run: every state is brought where a round finds it.';

create or replace function cerebro_private.move_state(run_id integer, mst_key integer, round_table text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $body$
declare
    written boolean;
begin
    perform cerebro_private.require_owner($1);
    if not $3 = any (cerebro_private.round_tables($1)) then
        raise exception '% holds no states of run %', $3, $1 using errcode = 'undefined_object';
    end if;
    execute format('select exists (select 1 from cerebro_private.%I)', cerebro_private.state_name($1, $2)) into written;
    if not written then
        execute format('insert into cerebro_private.%I (key, mst_key, state) values ($1, $1, $2)', $3)
          using $2, array[convert_to('{"chunks": []}', 'UTF8')];
        return;
    end if;
    -- Grouped, so that the bytes go from segment to segment.
    execute format('insert into cerebro_private.%I (key, mst_key, state)'
                || ' select s.mst, s.mst, convert_to(json_build_object(''chunks'''
                || '      , json_agg(json_build_array(s.part, s.chunk, s.mst) order by s.part, s.chunk))::text, ''UTF8'')'
                || '      || array_agg(s.data order by s.part, s.chunk)'
                || '   from (select t.part, t.chunk, t.data, %s as mst from cerebro_private.%I t) s group by s.mst'
                 , $3, $2, cerebro_private.state_name($1, $2));
    execute format('truncate table cerebro_private.%I', cerebro_private.state_name($1, $2));
end
$body$;
comment on function cerebro_private.move_state(integer, integer, text) is
    'Bring a config''s state from its own table into one of those that rounds use.';

create or replace function cerebro_private.start_round(run_id integer) returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $body$
declare
    name text;
    used boolean;
begin
    perform cerebro_private.require_owner($1);
    foreach name in array cerebro_private.round_tables($1) loop
        execute format('select exists (select 1 from cerebro_private.%I)', name) into used;
        if not used then
            return name;
        end if;
    end loop;
    return cerebro_private.add_round_table($1);
end
$body$;
comment on function cerebro_private.start_round(integer) is 'An empty table for the states that a round makes.';

create or replace function cerebro_private.end_round(run_id integer, round_table text, mst_keys integer[]) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $body$
declare
    name text;
    mst integer;
    used boolean;
    gone bigint;
begin
    perform cerebro_private.require_owner($1);
    foreach name in array cerebro_private.round_tables($1) loop
        continue when name = $2;
        execute format('delete from cerebro_private.%I r where r.mst_key = any ($1)', name) using $3;
        get diagnostics gone = row_count;
        execute format('select exists (select 1 from cerebro_private.%I)', name) into used;
        if gone > 0 and not used then
            execute format('truncate table cerebro_private.%I', name);
        end if;
    end loop;
    foreach mst in array $3 loop  -- who waits for a config's state waits until this transaction is over
        execute format('lock table cerebro_private.%I in access exclusive mode', cerebro_private.state_name($1, mst));
    end loop;
end
$body$;
comment on function cerebro_private.end_round(integer, text, integer[]) is
    'Give back the states of before a round of these configs, which has written that table.';
