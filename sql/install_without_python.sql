-- Installs cerebro-db into a database whose server has no PL/Python, or where nobody may use it, as on managed
-- PostgreSQL: psql -f sql/install_without_python.sql, as the owner of the database with CREATEROLE. Packing,
-- configs, training by worker processes, evaluate and predict work from the client (cerebro-db, Python).
-- Installing sql/install.sql later, as a superuser, adds the functions that run in the server.
\set ON_ERROR_STOP on
begin;
set local client_min_messages = warning;

\ir include/not_as_extension.sql
\ir include/sql_only.sql
\ir schema/90_grants.sql
commit;
