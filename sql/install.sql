-- Installs cerebro-db into the current database; run it as a superuser: psql -f sql/install.sql
-- `cerebro-db install` runs the same lines. Again on the same version it keeps every run and model.
-- One transaction: a database has all of it or none.
\set ON_ERROR_STOP on
begin;
set local client_min_messages = warning;

\ir schema/00_roles.sql
\ir schema/10_catalog.sql
\ir functions/10_access.sql
\ir functions/20_runs.sql
\ir functions/30_state.sql
\ir functions/40_packed.sql
\ir functions/50_factories.sql
\ir functions/60_pages.sql
\ir schema/20_views.sql
\ir dialect/postgresql.sql

\ir ../udfs/check_plan/latest.sql
\ir ../udfs/cpu_count/latest.sql
\ir ../udfs/open_segment/latest.sql
\ir ../udfs/strip_arrays/latest.sql
\ir ../udfs/train_hop/latest.sql
\ir ../udfs/warm_up/latest.sql

\ir ../udfs/delete_model_arch/latest.sql
\ir ../udfs/generate_model_configs/latest.sql
\ir ../udfs/load_model_arch/latest.sql
\ir ../udfs/load_model_selection_table/latest.sql
\ir ../udfs/madlib_mop_cancel/latest.sql
\ir ../udfs/madlib_mop_check/latest.sql
\ir ../udfs/madlib_mop_evaluate/latest.sql
\ir ../udfs/madlib_mop_fit/latest.sql
\ir ../udfs/madlib_mop_forget/latest.sql
\ir ../udfs/madlib_mop_predict/latest.sql
\ir ../udfs/madlib_mop_resume/latest.sql
\ir ../udfs/madlib_mop_status/latest.sql
\ir ../udfs/register_factory/latest.sql
\ir ../udfs/training_preprocessor_dl/latest.sql
\ir ../udfs/unregister_factory/latest.sql
\ir ../udfs/validation_preprocessor_dl/latest.sql

\ir schema/90_grants.sql
commit;
