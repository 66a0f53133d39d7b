-- cluster --
-- Which cluster this is, for ever; copies and standbys of it are the same. NULL for who may not ask.
select cerebro_private.system_identifier()::text as identifier;

-- contents --
-- Count and hash over the bytes of a packed table.
select count(*) as rows, md5(string_agg(p.buffer_id::text || {digests}, '' order by p.buffer_id)) as digest
  from {packed} p;
