-- candidates --
-- Every config of a fit, with what ranks it.
select m.mst_key::bigint as mst_key, m.model_weights is not null as trained, i.loss_type, i.metrics_type
     , coalesce(i.validation_metrics_final, i.training_metrics_final)::float8 as metric
     , coalesce(i.validation_loss_final, i.training_loss_final)::float8 as loss
  from {model} m left join {info} i on i.mst_key = m.mst_key
 order by 1;

-- weights --
-- The model of one config.
select m.model_weights, m.model_arch::text as model_arch from {model} m where m.mst_key = %(mst_key)s::bigint;

-- summary --
-- How the training rows were packed.
select s.layout::text as layout, s.packed_table from {summary} s;

-- evaluation --
-- The result of an evaluation, MADlib's columns first.
create table {output} {heap}
as
select %(loss)s::float8 as loss, %(metric)s::float8 as metric, %(metrics_type)s::text[] as metrics_type
     , %(loss_type)s::text as loss_type, %(mst_key)s::integer as mst_key, %(rows)s::bigint as rows
{replicated};

-- first_rows --
-- Rows of the first pages.
select count(*) as rows from {table} as source where source.ctid < ('(' || %(pages)s::bigint || ',0)')::tid;

-- blocks_by_page --
-- Encoded rows, one block per range of pages: no sort, and each row is copied once.
select b.*
  from generate_series(
       0, pg_catalog.pg_relation_size(%(table)s::text::regclass) / pg_catalog.current_setting('block_size')::integer
     , %(step)s::bigint) as first (page)
 cross join lateral (
       select count(*) as rows, array_agg(x.id)::text as ids, {aggregates}
         from (select s.id, {inputs}
                 from (select {id} as id, {inner} from {source} as source {beside}
                        where source.ctid >= ('(' || first.page || ',0)')::tid
                          and source.ctid < ('(' || first.page + %(step)s::bigint || ',0)')::tid offset 0) as s
                      {joins} offset 0) as x) as b
 where b.rows > 0;

-- blocks_by_count --
-- Encoded rows, numbered and grouped, for whatever else holds rows.
select count(*) as rows, array_agg(x.id)::text as ids, {aggregates}
  from (select s.id, s.block, {inputs}
          from (select {id} as id, (row_number() over () - 1) / %(step)s::bigint as block, {inner}
                  from {source} as source {beside} offset 0) as s
               {joins} offset 0) as x
 group by x.block;

-- encoded --
-- The values of one input, one after the other, and how many of them are there in full.
string_agg({value}, ''::bytea) as {slot}, count(*) filter (where {fits}) as {slot}_fits;

-- unfit --
-- Values that no model can take, counted per column in one scan.
select count(*) as rows, array[{nulls}] as nulls, array[{sizes}] as sizes, array[{values}] as values
  from {table} as source;

-- unfit_elements --
-- Whether an array holds what a float32 cannot.
exists (select 1 from unnest({column}) as e (value)
         where e.value is null or e.value::text in ('NaN', 'Infinity', '-Infinity') or abs(e.value::float8) > 3.4028235e38);

-- create_classes --
-- An empty table of class predictions; the id keeps its type.
create table {output} {heap}
as
select {id} as {column}, null::text as class_name, null::text as class_value, null::float8 as prob{rank}
  from {source} as source with no data
{distributed};

-- create_values --
-- An empty table of predicted numbers; the id keeps its type.
create table {output} {heap}
as
select {id} as {column}, null::text as class_name{component}, null::float8 as prediction
  from {source} as source with no data
{distributed};

-- answer_best --
-- One class of a row. Probabilities come as whole numbers of 2^-62, -1 for NaN.
cast(u.id as {type}), %(class_name)s::text, u.label
, case when u.prob < 0 then 'NaN' else u.prob * 2.168404344971008868e-19::float8 end

-- answer_ranked --
-- One class of a row, and its place among them.
cast(u.id as {type}), %(class_name)s::text, u.label
, case when u.prob < 0 then 'NaN' else u.prob * 2.168404344971008868e-19::float8 end, u.rank

-- answer_value --
-- The number of a row.
cast(u.id as {type}), %(class_name)s::text, u.value

-- answer_components --
-- One of the numbers of a row.
cast(u.id as {type}), %(class_name)s::text, u.component, u.value

-- insert_best --
-- One class per row.
insert into {output}
select {answer}
  from (select unnest(%(ids)s::text::{types}) as id, unnest(%(labels)s::text::text[]) as label
             , unnest(%(probs)s::text::bigint[]) as prob) as u;

-- insert_ranked --
-- Several classes per row; `places` are the rows' places in the block, from 1.
insert into {output}
select {answer}
  from (select i.id, p.label, p.prob, p.rank
          from (select unnest(%(places)s::text::bigint[]) as place, unnest(%(labels)s::text::text[]) as label
                     , unnest(%(probs)s::text::bigint[]) as prob, unnest(%(ranks)s::text::integer[]) as rank) as p
          join unnest(%(ids)s::text::{types}) with ordinality as i (id, place) on i.place = p.place) as u;

-- insert_value --
-- One number per row.
insert into {output}
select {answer}
  from (select unnest(%(ids)s::text::{types}) as id, unnest(%(values)s::text::float8[]) as value) as u;

-- insert_components --
-- As many numbers per row as the target has.
insert into {output}
select {answer}
  from (select i.id, p.component, p.value
          from (select unnest(%(places)s::text::bigint[]) as place
                     , unnest(%(components)s::text::integer[]) as component
                     , unnest(%(values)s::text::float8[]) as value) as p
          join unnest(%(ids)s::text::{types}) with ordinality as i (id, place) on i.place = p.place) as u;

-- create_model --
-- Where the processes of the segments find the model that they evaluate or predict with.
create temporary table {held} (job text, weights bytea)
{stored};

-- fill_model --
-- The model, by the way that no value of a statement is as large as.
insert into {held} select %(job)s::text, m.model_weights from {model} m where m.mst_key = %(mst_key)s::bigint;

-- drop_model --
-- The model is not needed any more.
drop table {held};

-- held_model --
-- The model, as a process of a segment reads it.
select h.job, h.weights from {held} h;

-- evaluate_buffers --
-- Rows, loss and metric of each buffer, summed by the process of the segment where it lies.
select p.buffer_id, cerebro_private.evaluate_buffer(%(model)s::text, p.{shape}[1], array[{columns}]) as sums
  from {packed} p;

-- evaluate_copies --
-- The same for a table of which every segment has a copy: each takes its share.
select p.buffer_id, cerebro_private.evaluate_buffer(%(model)s::text, p.{shape}[1], array[{columns}]) as sums
  from gp_dist_random('pg_catalog.gp_id') g
  join {packed} p on p.buffer_id %% %(segments)s::integer = g.gp_segment_id;

-- predict_rows --
-- Rows go one by one to the model in the process of the segment that they lie on, which answers a block of them at
-- once; NULL means not yet. The last row of each process is none: it asks for the answers that are still due.
insert into {output}
select {answer}
  from (select {filled}
          from (select cerebro_private.predict_row(%(model)s::text, r.id, r.inputs, r.last) as found
                  from (select s.id, array[{inputs}] as inputs, false as last
                          from (select {id}::text as id, {inner} from {source} as source {beside} offset 0) as s
                               {joins}
                         union all
                        select null::text, null::bytea[], true from gp_dist_random('pg_catalog.gp_id')) as r) as q
         where q.found is not null) as u;
