-- Predict with the best config over 10,000 images it was not trained on, and count hits in SQL.
select mst_key as best from fashion_models_info order by validation_metrics_final desc nulls last, mst_key limit 1 \gset

select madlib_mop_predict('fashion_models', 'fashion_test', 'id', 'img', 'fashion_predicted', 'response', mst_key := :best);

select count(*) as images, avg((p.class_value = t.label)::integer)::numeric(6, 4) as accuracy
  from fashion_predicted p join fashion_test t using (id);

-- The same model, evaluated over the packed images.
select madlib_mop_evaluate('fashion_models', 'fashion_test_packed', 'fashion_evaluated', mst_key := :best);

select round(loss::numeric, 4) as loss, round(metric::numeric, 4) as metric from fashion_evaluated;

-- What it mixes up most.
select t.label, p.class_value as taken_for, count(*) as images
  from fashion_predicted p join fashion_test t using (id)
 where p.class_value <> t.label
 group by 1, 2 order by 3 desc limit 5;
