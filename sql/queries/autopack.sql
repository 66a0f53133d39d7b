-- find --
-- What a packed copy was made from, when madlib_mop_fit made it.
select c.fingerprint, c.request from cerebro_private.packed_copy(%(table)s::text::regclass::oid) c;

-- add --
-- Remember a packed copy.
select cerebro_private.add_packed(%(table)s::text::regclass::oid, %(source)s::text::regclass::oid
                                , %(fingerprint)s::text, %(request)s::text);

-- drop --
-- Remove a packed copy that is out of date.
drop table {table};
