-- Shuffle the rows once, spread them over the segments, and pack them into buffers of many images.
select training_preprocessor_dl('fashion_train', 'fashion_train_packed', 'label', 'img', null, 255);

select validation_preprocessor_dl('fashion_test', 'fashion_test_packed', 'label', 'img', 'fashion_train_packed');

select __dist_key__ as segment, count(*) as buffers, sum(img_shape[1]) as images
     , pg_size_pretty(sum(length(img))) as bytes
  from fashion_train_packed group by 1 order by 1;
