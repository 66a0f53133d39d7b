-- What needs no PL/Python, in order; the files that install include it.
\ir ../schema/00_roles.sql
select case when version() ~ 'Greenplum' then 'greenplum.sql' else 'postgresql.sql' end as dialect
\gset
\ir ../dialect/install/:dialect
\ir ../schema/10_catalog.sql
\ir ../functions/10_access.sql
\ir ../functions/20_runs.sql
\ir ../functions/30_state.sql
\ir ../functions/35_rounds.sql
\ir ../functions/40_packed.sql
\ir ../functions/50_factories.sql
\ir ../functions/60_pages.sql
\ir ../functions/70_arrays.sql
\ir ../schema/20_views.sql
\ir ../../udfs/register_factory/latest.sql
\ir ../../udfs/unregister_factory/latest.sql
