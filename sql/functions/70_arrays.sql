-- Arrays as the bytes of their elements, in big-endian order, without a loop over the elements:
-- array_send puts the length of each before it, and as hex digits replace() takes all of these out at once.
-- In SQL, without sub-selects and as stable as array_send, so that the planner puts the expressions where they are
-- called.

create or replace function cerebro_private.whole_bytes(items anyarray, prefix text, elements integer) returns bytea
language sql stable as $sql$
    -- An element that does not fit keeps its prefix, and makes the result too long. The last digit of a length is
    -- not 0 and seven zeros stand before it, so that no whole number that fits can be mistaken for a prefix.
    select case when cardinality(items) = elements then
           decode(replace(encode(substr(array_send(items), 13 + 8 * array_ndims(items)), 'hex'), prefix, ''), 'hex') end
$sql$;
comment on function cerebro_private.whole_bytes(anyarray, text, integer) is
    'Bytes of as many whole numbers, prefix (hex) taken off each as sent; longer when an element is NULL or does not fit.';

create or replace function cerebro_private.real_bytes_slowly(items real[]) returns bytea
language sql immutable as $sql$
    select string_agg(float4send(u.item), ''::bytea order by u.place) from unnest(items) with ordinality as u (item, place)
$sql$;
comment on function cerebro_private.real_bytes_slowly(real[]) is 'Bytes of numbers one by one.';

create or replace function cerebro_private.real_bytes(items real[], elements integer) returns bytea
language sql stable as $sql$
    -- NaN sorts above infinity, and a NULL element makes the comparison NULL.
    select case when cardinality(items) = elements and 'Infinity' > all (items) and '-Infinity' < all (items) then
           -- The one number whose bytes are those of a length.
           case when '5.605194e-45' = any (items) then cerebro_private.real_bytes_slowly(items)
                else cerebro_private.whole_bytes(items, '00000004', elements) end end
$sql$;
comment on function cerebro_private.real_bytes(real[], integer) is
    'Bytes of as many finite numbers; NULL when one is NULL, NaN or infinite, or there are more or fewer.';

create or replace function cerebro_private.narrowed(items double precision[]) returns real[]
language plpgsql immutable strict as $body$
begin
    return items::real[];
exception when numeric_value_out_of_range then
    -- What is too small becomes 0, of its sign; what is too large becomes NULL.
    return array(select case when abs(u.item) <= 2.0::float8 ^ (-150) then u.item * 0
                             when abs(u.item) < 3.4028235677973366e38::float8 then u.item end::real
                   from unnest(items) with ordinality as u (item, place)
                  order by u.place);
end
$body$;
comment on function cerebro_private.narrowed(double precision[]) is
    'Numbers as float4; 0 for what is too small, NULL for what is too large.';
