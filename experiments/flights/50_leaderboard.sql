-- The leaderboard is a table.
select i.mst_key as config, a.name as model, i.compile_params, i.fit_params
     , round(i.validation_metrics_final::numeric, 4) as accuracy
     , round(i.validation_loss_final::numeric, 4) as loss
     , i.status
  from flights_models_info i
  join flights_arch a using (model_id)
 order by i.validation_metrics_final desc nulls last, i.mst_key;
