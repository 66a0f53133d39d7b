-- find --
-- What a packed copy was made from, when madlib_mop_fit made it.
select c.fingerprint, c.request from cerebro_private.packed_copy(%(table)s::text::regclass::oid) c;

-- add --
-- Remember a packed copy.
select cerebro_private.add_packed(%(table)s::text::regclass::oid, %(source)s::text::regclass::oid
                                , %(fingerprint)s::text, %(request)s::text);

-- dependents --
-- Views and the like of the user that would go with a table.
select pg_catalog.pg_describe_object('pg_class'::regclass, c.oid, 0) as shown
  from pg_catalog.pg_depend d
  join pg_catalog.pg_rewrite w on d.classid = 'pg_rewrite'::regclass and w.oid = d.objid
  join pg_catalog.pg_class c on c.oid = w.ev_class
 where d.refclassid = 'pg_class'::regclass and d.refobjid = %(table)s::text::regclass
   and d.deptype = 'n' and c.oid <> d.refobjid
 order by 1 limit 1;

-- drop --
-- Remove a packed copy that is out of date.
drop table {table};
