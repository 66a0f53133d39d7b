-- What went through the client during the fit, beside what was trained on and what hopped. Neither rows nor models go
-- through it: they would be many times what did.
select 'the client sent' as what, :sent::bigint as bytes, pg_size_pretty(:sent::bigint) as size
 union all
select 'the client received', :received::bigint, pg_size_pretty(:received::bigint)
 union all
select 'rows to train on', sum(length(img)), pg_size_pretty(sum(length(img))) from fashion_train_packed
 union all
select 'rows read in all', h.passes * p.bytes, pg_size_pretty(h.passes * p.bytes)
  from (select sum(length(img)) as bytes from fashion_train_packed) as p
 cross join (select count(*) / count(distinct segment_id) as passes
               from hop where run_id = (select run_id from fashion_models_summary)) as h
 union all
select 'states that hopped', sum(state_bytes)::bigint, pg_size_pretty(sum(state_bytes)::bigint)
  from hop where run_id = (select run_id from fashion_models_summary);
