-- version --
-- What server this is, before asking for facts that only newer ones tell.
select pg_catalog.current_setting('server_version_num')::integer as number, pg_catalog.version() as version
     , pg_catalog.pg_is_in_recovery() as in_recovery;

-- server --
-- Where each instance of the server keeps its files; the directory is NULL for who may not know it.
select f.content, f.hostname, f.data_directory, f.identifier, f.may_checkpoint, f.owner::text as owner
  from cerebro_private.page_facts(%(table)s::text::regclass) f;

-- checkpoint --
-- Have the files say what the server's memory says.
select cerebro_private.write_pages(%(table)s::text::regclass);

-- attributes --
-- The columns as tuples hold them, dropped ones too.
select a.attname::text as name, a.attlen::integer as length, a.attalign::text as align
     , pg_catalog.format_type(a.atttypid, null) as type
  from pg_catalog.pg_attribute a
 where a.attrelid = %(table)s::text::regclass and a.attnum > 0
 order by a.attnum;

-- locate --
-- The buffers of a segment in order, or of the whole table when dist_key is NULL: rows, and the row version's place.
select p.buffer_id, p.{shape}[1] as rows, {content} as content, (p.ctid::text::point)[0]::bigint as block
     , (p.ctid::text::point)[1]::integer as item, p.xmin::text::bigint as xmin, p.xmax::text::bigint as xmax
  from only {packed} p
 where %(dist_key)s::integer is null or p."__dist_key__" = %(dist_key)s::integer
 order by p.buffer_id;
