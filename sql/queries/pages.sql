-- version --
-- What server this is, before asking for facts that only newer ones tell.
select pg_catalog.current_setting('server_version_num')::integer as number, pg_catalog.version() as version
     , pg_catalog.pg_is_in_recovery() as in_recovery;

-- server --
-- How the server lays out its files and where; the directory is NULL for who may not know it.
select i.database_block_size as block_size, i.blocks_per_segment as segment_blocks
     , i.max_toast_chunk_size as chunk_size, i.max_data_alignment as max_align, c.system_identifier
     , f.data_directory, f.may_checkpoint, f.owner::text as owner
  from pg_catalog.pg_control_init() i cross join pg_catalog.pg_control_system() c
 cross join cerebro_private.page_facts(%(table)s::text::regclass) f;

-- checkpoint --
-- Have the files say what the server's memory says.
select cerebro_private.write_pages(%(table)s::text::regclass);

-- relation --
-- Files of a table and of its TOAST relation, and whether the caller may read every row of it.
select c.relkind::text as kind, c.relpersistence::text as persistence, coalesce(a.amname, 'heap')::text as method
     , pg_catalog.pg_relation_filepath(c.oid) as heap, pg_catalog.pg_relation_filepath(t.oid) as toast
     , coalesce(t.oid, 0)::bigint as toast_oid, pg_catalog.has_table_privilege(c.oid, 'select') as may_read
     , pg_catalog.row_security_active(c.oid) as row_security
  from pg_catalog.pg_class c
  left join pg_catalog.pg_am a on a.oid = c.relam
  left join pg_catalog.pg_class t on t.oid = c.reltoastrelid
 where c.oid = %(table)s::text::regclass;

-- attributes --
-- The columns as tuples hold them, dropped ones too.
select a.attname::text as name, a.attlen::integer as length, a.attalign::text as align
     , pg_catalog.format_type(a.atttypid, null) as type
  from pg_catalog.pg_attribute a
 where a.attrelid = %(table)s::text::regclass and a.attnum > 0
 order by a.attnum;

-- locate --
-- The buffers of a segment in order, or of the whole table when dist_key is NULL: rows, and the row version's place.
select p.buffer_id, p.{shape}[1] as rows, (p.ctid::text::point)[0]::bigint as block
     , (p.ctid::text::point)[1]::integer as item, p.xmin::text::bigint as xmin
  from only {packed} p
 where %(dist_key)s::bigint is null or p."__dist_key__" = %(dist_key)s::bigint
 order by p.buffer_id;
