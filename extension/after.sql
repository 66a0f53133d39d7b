-- What stands last in the extension's script: rows that pg_dump keeps, and the numbers that come next. Not those of
-- cerebro_private.version, which the script writes, and of cerebro_private.packed, which hold oids. Tables of hopping
-- state are made later, so they are no part of the extension and pg_dump keeps them whole.

select pg_catalog.pg_extension_config_dump('cerebro_private.run', '');
select pg_catalog.pg_extension_config_dump('cerebro_private.run_run_id_seq', '');
select pg_catalog.pg_extension_config_dump('cerebro_private.delivery', '');
select pg_catalog.pg_extension_config_dump('cerebro_private.config', '');
select pg_catalog.pg_extension_config_dump('cerebro_private.segment', '');
select pg_catalog.pg_extension_config_dump('cerebro_private.event', '');
select pg_catalog.pg_extension_config_dump('cerebro_private.event_event_id_seq', '');
select pg_catalog.pg_extension_config_dump('cerebro_private.hop', '');
select pg_catalog.pg_extension_config_dump('cerebro_private.profile', '');
select pg_catalog.pg_extension_config_dump('cerebro_private.factory', '');
