"""Configs trained as one: by every strategy to the same bits, close to those of each alone, through kills too."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Tuple

import pytest
from safetensors.numpy import load

from cerebro_db.client import PsycopgDatabase, connect
from tests import runs
from tests.runs import sql

STRATEGIES = ("in_rdbms", "hybrid", "streaming", "export", "direct")
SEGMENTS, EPOCHS = 2, 2
MLP = {"model": "mlp", "hidden": [16], "dropout": 0.2}
CNN = {"model": "cnn", "channels": [4], "hidden": 8, "input_shape": [1, 4, 4]}


def adam(lr: float, **more: Any) -> Dict[str, Any]:
    return {"optimizer": "adam", "lr": lr, "loss": "cross_entropy", "metrics": ["accuracy"], **more}


STEPPED = {"lr_schedule": {"name": "step", "step_size": 1, "gamma": 0.5}}
#: mst_key -> config: six that can be one, two of another batch size, one convolutional.
CONFIGS: runs.Configs = {
    **{key: (MLP, adam(0.001 * key, **(STEPPED if key == 3 else {})), "batch_size=16") for key in range(1, 7)},
    7: (MLP, adam(0.01), "batch_size=32"),
    8: (MLP, adam(0.002, weight_decay=0.1), "batch_size=32"),
    9: (CNN, adam(0.01), "batch_size=32"),
}
#: Two segments: six configs in two groups, so that no segment waits; two of batch size 32 would leave one waiting.
METRICS = "mst_key, epoch, loss, metric, validation_loss, validation_metric"


@pytest.fixture(scope="module")
def images(pg_module: PsycopgDatabase) -> PsycopgDatabase:
    runs.make_images(pg_module, "images", 401, 4, 3)
    runs.pack(pg_module, "images", "packed", SEGMENTS, buffer_size=40)
    runs.make_selection(pg_module, "nine", CONFIGS)
    runs.make_selection(pg_module, "six", {key: CONFIGS[key] for key in range(1, 7)})
    return pg_module


@pytest.fixture(scope="module")
def fused(images: PsycopgDatabase) -> int:
    """The run of strategy in_rdbms."""
    row = runs.fit(images, "packed", "fused_in_rdbms", "nine", EPOCHS, fuse="always", threads=1, validation="packed")
    return int(row["run_id"])


def states(database: PsycopgDatabase, output: str) -> Dict[int, Tuple[bytes, bytes]]:
    rows = database.rows(sql(f"select mst_key, model_weights, optimizer_state from {output}"))
    return {row["mst_key"]: (bytes(row["model_weights"]), bytes(row["optimizer_state"])) for row in rows}


def groups(database: PsycopgDatabase, run_id: int) -> Any:
    (row,) = database.rows(sql("select cerebro_private.plan(%(run_id)s::integer)::text as plan"), run_id=run_id)
    return json.loads(row["plan"])["groups"]


def metrics(database: PsycopgDatabase, run_id: int) -> Dict[Tuple[int, int], Any]:
    query = sql(
        "select mst_key, epoch, training_loss, training_metric, validation_loss, validation_metric"
        " from cerebro.metric where run_id = %(run_id)s"
    )
    return {(row.pop("mst_key"), row.pop("epoch")): row for row in database.rows(query, run_id=run_id)}


def test_configs_of_one_shape_are_groups_of_the_plan(images: PsycopgDatabase, fused: int) -> None:
    found = groups(images, fused)
    assert {tuple(sorted(group)) for group in found} == {tuple(sorted(set(group))) for group in found}
    assert all(len(group) > 1 and (set(group) <= set(range(1, 7)) or set(group) == {7, 8}) for group in found)
    assert {1, 2, 3, 4, 5, 6} <= {key for group in found for key in group}


def test_every_hop_happens_once_and_members_go_together(images: PsycopgDatabase, fused: int) -> None:
    hops = runs.hops(images, fused)
    assert runs.keys(hops) == runs.every_hop(list(CONFIGS), EPOCHS, SEGMENTS)
    spans = {
        (hop["mst_key"], hop["epoch"], hop["segment_id"]): (hop["finished_at"], hop["session_pid"]) for hop in hops
    }
    group = next(group for group in groups(images, fused) if 1 in group)
    for epoch in range(1, EPOCHS + 1):
        for segment in range(SEGMENTS):
            ends = [spans[key, epoch, segment] for key in group]
            assert len({pid for _, pid in ends}) == 1
            others = [end for (_, e, s), (end, _) in spans.items() if (e, s) == (epoch, segment)]
            between = [end for end in others if min(ends)[0] < end < max(ends)[0]]
            assert len(between) == len(group) - 2  # nothing else ended there meanwhile


def test_the_parts_of_the_members_add_up_to_no_more_than_the_run(images: PsycopgDatabase, fused: int) -> None:
    (row,) = images.rows(
        sql(
            "select sum(train_seconds + validate_seconds + data_seconds + hop_seconds + start_seconds) as parts"
            " , extract(epoch from max(finished_at) - min(started_at))::float8 as wall"
            " from cerebro.hop where run_id = %(run_id)s"
        ),
        run_id=fused,
    )
    assert 0 < row["parts"] <= SEGMENTS * row["wall"] * 1.001


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_gives_the_same_bits(images: PsycopgDatabase, fused: int, strategy: str) -> None:
    if strategy != "in_rdbms":
        runs.fit(
            images, "packed", f"fused_{strategy}", "nine", EPOCHS, fuse="always", threads=1, validation="packed",
            strategy=strategy,
        )  # fmt: skip
    assert states(images, f"fused_{strategy}") == states(images, "fused_in_rdbms")
    assert len(states(images, f"fused_{strategy}")) == len(CONFIGS)


def test_rows_streamed_in_windows_give_the_same_bits(images: PsycopgDatabase, fused: int) -> None:
    runs.fit(
        images, "packed", "fused_windows", "nine", EPOCHS, fuse="always", threads=1, validation="packed", caching=False
    )
    assert states(images, "fused_windows") == states(images, "fused_in_rdbms")


def test_metrics_and_weights_are_near_those_of_each_alone(images: PsycopgDatabase, fused: int) -> None:
    row = runs.fit(images, "packed", "alone", "nine", EPOCHS, fuse="off", threads=1, validation="packed")
    assert groups(images, row["run_id"]) == []
    alone, together = metrics(images, row["run_id"]), metrics(images, fused)
    assert alone.keys() == together.keys()
    assert len(alone) == len(CONFIGS) * EPOCHS
    order = {(hop["mst_key"], hop["epoch"], hop["segment_id"]) for hop in runs.hops(images, fused)}
    assert order == {(hop["mst_key"], hop["epoch"], hop["segment_id"]) for hop in runs.hops(images, row["run_id"])}
    for key in CONFIGS:
        mine, theirs = load(states(images, "alone")[key][0]), load(states(images, "fused_in_rdbms")[key][0])
        assert mine.keys() == theirs.keys()
    for where, values in alone.items():
        assert together[where].keys() == values.keys()


def test_a_trainer_killed_in_the_middle_changes_no_bit(images: PsycopgDatabase, pg_module_dsn: str, fused: int) -> None:
    running, run_id = runs.start_fit(
        pg_module_dsn, images, "packed", "killed", "nine", EPOCHS, fuse="always", threads=1, validation="packed", hops=4
    )
    pid = runs.hops(images, run_id)[0]["session_pid"]
    images.rows(sql("select pg_terminate_backend(%(pid)s::integer)"), pid=pid)
    running.finished()
    assert runs.keys(runs.hops(images, run_id)) == runs.every_hop(list(CONFIGS), EPOCHS, SEGMENTS)
    assert states(images, "killed") == states(images, "fused_in_rdbms")


def test_one_that_diverges_ends_and_the_others_go_on(images: PsycopgDatabase) -> None:
    rates = {1: 0.01, 2: 0.02, 3: 1e38, 4: 0.04}
    runs.make_selection(
        images, "wild", {key: (MLP, {**adam(rate), "optimizer": "sgd"}, "batch_size=16") for key, rate in rates.items()}
    )
    row = runs.fit(images, "packed", "wild_out", "wild", EPOCHS, fuse="always", threads=1)
    assert sorted(key for group in groups(images, row["run_id"]) for key in group) == [1, 2, 3, 4]
    query = sql("select mst_key, status from cerebro.config where run_id = %(run_id)s")
    ends = {end["mst_key"]: end["status"] for end in images.rows(query, run_id=row["run_id"])}
    assert ends == {1: "finished", 2: "finished", 3: "diverged", 4: "finished"}
    done = runs.keys(runs.hops(images, row["run_id"]))
    assert [hop for hop in done if hop[0] != 3] == runs.every_hop([1, 2, 4], EPOCHS, SEGMENTS)
    assert len([hop for hop in done if hop[0] == 3]) == 1


def test_a_probe_decides_by_default(images: PsycopgDatabase, pg_module_dsn: str) -> None:
    told: List[str] = []
    with connect(pg_module_dsn, on_notice=told.append) as session:
        row = runs.fit(session, "packed", "probed", "six", 1, fuse="auto", threads=1)
    found = groups(images, row["run_id"])
    assert all(set(group) <= set(range(1, 7)) for group in found)
    assert len({key for group in found for key in group}) == sum(map(len, found))
    assert len([line for line in told if "trained together" in line]) == (1 if found else 0)


def test_rounds_train_groups_where_a_hop_is_a_session_of_its_own(images: PsycopgDatabase, fused: int) -> None:
    row = runs.fit(images, "packed", "rounds", "nine", 1, fuse="always", threads=1, order="round")
    assert runs.keys(runs.hops(images, row["run_id"])) == runs.every_hop(list(CONFIGS), 1, SEGMENTS)
