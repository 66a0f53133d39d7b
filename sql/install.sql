-- Installs cerebro-db into the current database, with PL/Python; run it as a superuser: psql -f sql/install.sql
-- `cerebro-db install` runs the same lines, or those of install_without_python.sql where a server has no PL/Python.
-- Again on the same version it keeps every run and model. One transaction: a database has all of it or none.
\set ON_ERROR_STOP on
begin;
set local client_min_messages = warning;

\ir include/not_as_extension.sql
\ir schema/00_python.sql
\ir include/sql_only.sql

\ir functions/80_loopback.sql

\ir ../udfs/check_plan/latest.sql
\ir ../udfs/clear_session/latest.sql
\ir ../udfs/cpu_count/latest.sql
\ir ../udfs/evaluate_buffer/latest.sql
\ir ../udfs/facts_here/latest.sql
\ir ../udfs/in_segment/latest.sql
\ir ../udfs/open_segment/latest.sql
\ir ../udfs/predict_row/latest.sql
\ir ../udfs/train_hop/latest.sql
\ir ../udfs/train_round/latest.sql
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
\ir ../udfs/training_preprocessor_dl/latest.sql
\ir ../udfs/validation_preprocessor_dl/latest.sql

\ir schema/90_grants.sql
commit;
