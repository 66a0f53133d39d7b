-- lock --
-- One writer of a model or selection table at a time, before it may exist, until the transaction ends.
select pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtext('cerebro.selection'), pg_catalog.hashtext(%(name)s));

-- create_arch --
-- A table of model architectures, as load_keras_model makes it.
create table {table} (
    model_id integer primary key
  , model_arch json not null
  , model_weights bytea
  , name text
  , description text
) {stored};

-- keep_weights_plain --
-- Weights do not compress; stored as they are they are read faster.
alter table {table} alter column model_weights set storage external;

-- add_arch --
-- A model under the next free id.
insert into {table} (model_id, model_arch, model_weights, name, description)
select coalesce(max(t.model_id), 0) + 1, %(model_arch)s::json, %(model_weights)s::bytea
     , %(name)s::text, %(description)s::text
  from {table} t
returning model_id;

-- arch_ids --
-- The ids of all models.
select t.model_id::integer as model_id from {table} t order by 1;

-- delete_arch --
-- One model less.
delete from {table} where model_id = %(model_id)s::integer;

-- drop --
-- A table that the caller owns and that has become empty.
drop table {table};

-- archs --
-- Models by id, their JSON as text.
select t.model_id::integer as model_id, t.model_arch::text as model_arch, t.model_weights
  from {table} t
 where t.model_id::integer = any(%(model_ids)s::integer[]);

-- create_selection --
-- A table of configs: a model with the parameters of its training.
create table {table} (
    mst_key integer primary key
  , model_id integer not null
  , compile_params varchar not null
  , fit_params varchar not null
  , unique (model_id, compile_params, fit_params)
) {stored};

-- create_summary --
-- The one row that says where the models of a selection table are.
create table {summary} (
    model_arch_table varchar not null
  , object_table varchar
) {stored};

-- add_summary --
-- Where the models are; object_table is MADlib's column for custom functions.
insert into {summary} (model_arch_table) values (%(model_arch_table)s);

-- add_configs --
-- Configs from four arrays of one length.
insert into {table} (mst_key, model_id, compile_params, fit_params)
select u.mst_key, u.model_id, u.compile_params, u.fit_params
  from unnest(%(mst_keys)s::integer[], %(model_ids)s::integer[], %(compile_params)s::text[], %(fit_params)s::text[])
    as u (mst_key, model_id, compile_params, fit_params);

-- configs --
-- The configs in order; as text where a table made by hand may have other types.
select t.mst_key::text as mst_key, t.model_id::text as model_id
     , t.compile_params::text as compile_params, t.fit_params::text as fit_params
  from {table} t
 order by t.mst_key;

-- summary_tables --
-- The tables of models that a summary names; MADlib writes a row per append.
select distinct s.model_arch_table::text as model_arch_table from {summary} s order by 1;

-- object_tables --
-- The tables of custom functions that a summary names.
select distinct s.object_table::text as object_table from {summary} s where s.object_table is not null;
