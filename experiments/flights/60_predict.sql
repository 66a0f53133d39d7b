-- Predict with the best config. A model that was trained without NULL refuses it, so a view leaves such rows out.
create view flights_known as select * from flights_test where dep_delay is not null and late is not null;

select mst_key as best from flights_models_info order by validation_metrics_final desc nulls last, mst_key limit 1 \gset

select madlib_mop_predict('flights_models', 'flights_known', 'id',
    'month, day, weekday, sched_dep_minute, sched_arr_minute, dep_delay, distance, carrier, origin, dest',
    'flights_predicted', 'response', mst_key := :best);

-- Against the guess that no flight is late.
select count(*) as flights
     , avg((p.class_value::boolean = t.late)::integer)::numeric(6, 4) as accuracy
     , avg((not t.late)::integer)::numeric(6, 4) as accuracy_of_never_late
  from flights_predicted p join flights_known t using (id);

-- The same model, evaluated over the packed rows.
select madlib_mop_evaluate('flights_models', 'flights_test_packed', 'flights_evaluated', mst_key := :best);

select round(loss::numeric, 4) as loss, round(metric::numeric, 4) as metric from flights_evaluated;

-- Where the late flights are that it finds, and those it misses.
select t.late, p.class_value as taken_for, count(*) as flights
  from flights_predicted p join flights_known t using (id)
 group by 1, 2 order by 1, 2;
