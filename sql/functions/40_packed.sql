-- Packed copies that madlib_mop_fit made itself.

create or replace function cerebro_private.packed_copy(packed_table oid)
returns table (fingerprint text, request text)
language sql stable :on_coordinator security definer set search_path = pg_catalog, pg_temp as $sql$
    select p.fingerprint, p.request
      from cerebro_private.packed p
     where p.packed_table = $1 and pg_has_role(cerebro_private.caller(), p.owner, 'member')
$sql$;
comment on function cerebro_private.packed_copy(oid) is 'What a packed copy of the caller''s was made from.';

create or replace function cerebro_private.add_packed(
    packed_table oid, source_table oid, fingerprint text, request text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $body$
begin
    -- Copies that were dropped leave their row; their oids may come back.
    delete from cerebro_private.packed p
     where p.packed_table = $1
        or not exists (select 1 from pg_class c where c.oid = p.packed_table);
    insert into cerebro_private.packed (packed_table, source_table, fingerprint, request, owner)
    values ($1, $2, $3, $4, cerebro_private.caller());
end
$body$;
comment on function cerebro_private.add_packed(oid, oid, text, text) is 'Remember a packed copy for the next fit.';
