"""A run gives the weights of a plain loop that visits the segments in the recorded order, bit for bit."""

from __future__ import annotations

from functools import partial
from typing import Any, Dict, List, Tuple

import pytest
import torch

from cerebro_db.client import PsycopgDatabase
from tests import plain, runs
from tests.runs import sql

SIDE, CLASSES, PIXELS = 4, 3, 16
SEGMENTS, EPOCHS = 4, 2
CNN = {"model": "cnn", "channels": [4], "hidden": 8, "input_shape": [1, SIDE, SIDE]}
DROPOUT = {"model": "mlp", "hidden": [8], "dropout": 0.5}
ADAM = runs.ADAM
SGD = {"optimizer": "sgd", "lr": 0.1, "momentum": 0.9, "loss": "cross_entropy", "metrics": ["accuracy"]}
STEPPED = {**ADAM, "lr_schedule": {"name": "step", "step_size": 1, "gamma": 0.1}}

make_mlp = plain.mlp(PIXELS, 8, CLASSES)
make_cnn = plain.cnn(SIDE, 4, 8, CLASSES)
adam = partial(torch.optim.Adam, lr=0.01)
sgd = partial(torch.optim.SGD, lr=0.1, momentum=0.9)
by_step = partial(torch.optim.lr_scheduler.StepLR, step_size=1, gamma=0.1)

#: mst_key -> the same config as cerebro takes it and in plain PyTorch. 203 rows: segments of 50 or 51.
CONFIGS: Dict[int, Tuple[Tuple[Any, Any, str], plain.Config]] = {
    1: ((runs.MLP, ADAM, "batch_size=16"), plain.Config(make_mlp, adam, 16)),
    2: ((runs.MLP, SGD, "batch_size=7"), plain.Config(make_mlp, sgd, 7)),  # the last batch has 1 or 2 rows
    3: ((CNN, ADAM, "batch_size=16"), plain.Config(make_cnn, adam, 16)),
    4: ((CNN, SGD, "batch_size=25"), plain.Config(make_cnn, sgd, 25)),
    5: ((DROPOUT, ADAM, "batch_size=16"), plain.Config(plain.mlp(PIXELS, 8, CLASSES, dropout=0.5), adam, 16)),
    6: ((runs.MLP, ADAM, "batch_size=16, epochs=2"), plain.Config(make_mlp, adam, 16, passes=2)),
    7: ((runs.MLP, STEPPED, "batch_size=1000"), plain.Config(make_mlp, adam, 1000, schedule=by_step)),
}


@pytest.fixture(scope="module")
def images(pg_module: PsycopgDatabase) -> PsycopgDatabase:
    """203 images in 4 segments of several buffers each, and a selection table of every config."""
    runs.make_images(pg_module, "images", 203, SIDE, CLASSES)
    runs.pack(pg_module, "images", "packed", SEGMENTS, buffer_size=9)
    runs.make_selection(pg_module, "every", {key: given for key, (given, _) in CONFIGS.items()})
    return pg_module


@pytest.fixture(scope="module")
def trained(images: PsycopgDatabase) -> Tuple[PsycopgDatabase, plain.Packed, List[Any]]:
    """More configs than segments, with validation in between, at the default settings."""
    row = runs.fit(images, "packed", "out", "every", EPOCHS, threads=1, validation="packed")
    return images, plain.read(images.connection, "packed"), runs.hops(images, row["run_id"])


@pytest.mark.parametrize("key", CONFIGS)
def test_final_weights_are_those_of_a_plain_loop(trained: Any, key: int) -> None:
    database, packed, hops = trained
    assert len(packed.segments) == SEGMENTS
    visits = plain.visits(hops, key)
    assert len(visits) == SEGMENTS * EPOCHS
    expected = plain.train(packed, CONFIGS[key][1], key, visits)
    plain.same_bits(runs.weights(database, "out", key), expected)


def test_every_segment_is_visited_once_in_every_epoch(trained: Any) -> None:
    _, _, hops = trained
    assert runs.keys(hops) == runs.every_hop(list(CONFIGS), EPOCHS, SEGMENTS)


def test_a_wrong_order_of_segments_gives_other_bits(trained: Any) -> None:
    """The comparison is worth something: the same visits, two of them exchanged, differ."""
    database, packed, hops = trained
    visits = plain.visits(hops, 1)
    visits[0], visits[1] = visits[1], visits[0]
    with pytest.raises(AssertionError):
        plain.same_bits(runs.weights(database, "out", 1), plain.train(packed, CONFIGS[1][1], 1, visits))


@pytest.mark.parametrize("order", ["rotation", "round"])
def test_the_same_run_gives_the_same_weights_again(images: PsycopgDatabase, order: str) -> None:
    """Also when rows are read anew in every hop instead of kept."""
    for table in ("first", "again"):
        images.script(sql(f"drop table if exists {table}, {table}_info, {table}_summary"))
    images.script(sql("drop table if exists three, three_summary, three_arch"))
    runs.make_selection(images, "three", {key: CONFIGS[key][0] for key in (1, 3, 5)})
    first = runs.fit(images, "packed", "first", "three", 1, threads=1, order=order, seed=5)
    again = runs.fit(images, "packed", "again", "three", 1, threads=1, order=order, seed=5, caching=False)
    for key in (1, 3, 5):
        visits = [plain.visits(runs.hops(images, row["run_id"]), key) for row in (first, again)]
        assert visits[0] == visits[1]
        assert runs.weights(images, "first", key) == runs.weights(images, "again", key)


def test_windows_and_a_small_cache_change_nothing_but_the_order(images: PsycopgDatabase) -> None:
    """600 rows of 4096 bytes in windows of 1 MB, more than the cache of 1 MB holds."""
    runs.make_images(images, "large", 600, side=64)
    runs.pack(images, "large", "large_packed", segments=1, buffer_size=50)
    configs = {1: (runs.MLP, ADAM, "batch_size=32"), 2: (runs.MLP, SGD, "batch_size=100")}
    runs.make_selection(images, "two", configs)
    row = runs.fit(images, "large_packed", "out_large", "two", 2, threads=1, seed=3, window_mb=1, cache_mb=1)
    packed = plain.read(images.connection, "large_packed")
    hops = runs.hops(images, row["run_id"])
    for key, optimizer, batch in ((1, adam, 32), (2, sgd, 100)):
        config = plain.Config(plain.mlp(4096, 8, CLASSES), optimizer, batch)
        expected = plain.train(packed, config, key, plain.visits(hops, key), seed=3, window_mb=1)
        plain.same_bits(runs.weights(images, "out_large", key), expected)


def test_segments_of_one_row_and_none_with_fewer_configs_than_segments(images: PsycopgDatabase) -> None:
    runs.make_images(images, "tiny", 3)
    runs.pack(images, "tiny", "tiny_packed", segments=4)
    runs.make_selection(images, "one", {9: (runs.MLP, ADAM, "batch_size=256")})
    row = runs.fit(images, "tiny_packed", "out_tiny", "one", 2, threads=1)
    packed = plain.read(images.connection, "tiny_packed")
    assert [segment.buffer_rows for segment in packed.segments.values()] == [[1], [1], [1]]
    visits = plain.visits(runs.hops(images, row["run_id"]), 9)
    assert sorted(visits) == [(epoch, segment) for epoch in (1, 2) for segment in sorted(packed.segments)]
    expected = plain.train(packed, plain.Config(make_mlp, adam, 256), 9, visits)
    plain.same_bits(runs.weights(images, "out_tiny", 9), expected)


def test_a_table_of_numbers_and_words(images: PsycopgDatabase) -> None:
    images.rows(
        sql(
            "create table people as"
            " select i as id, i %% 7 * 1.5 as height, (i * i) %% 11 as age, 'town ' || i %% 5 as town"
            "      , i %% 3 = 0 as smokes, case when i %% 2 = 0 then 'yes' else 'no' end as label"
            "   from generate_series(1, 101) i"
        )
    )
    runs.pack(images, "people", "people_packed", 2, features="height, age, town, smokes", normalizing_const=1.0)
    arch = {"model": "tabular", "hidden": [8], "embedding": 3}
    runs.make_selection(images, "tables", {4: (arch, ADAM, "batch_size=10"), 5: (arch, SGD, "batch_size=50")})
    row = runs.fit(images, "people_packed", "out_people", "tables", 2, threads=1)
    packed = plain.read(images.connection, "people_packed")
    hops = runs.hops(images, row["run_id"])
    for key, optimizer, batch in ((4, adam, 10), (5, sgd, 50)):
        config = plain.Config(partial(plain.Table, packed.layout), optimizer, batch)
        expected = plain.train(packed, config, key, plain.visits(hops, key))
        plain.same_bits(runs.weights(images, "out_people", key), expected)
