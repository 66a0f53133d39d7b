"""Which configs are trained as one: by what they share, by measured seconds, and so that no segment waits."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Dict, List, Sequence, Tuple

import pytest

from cerebro_db import fusion
from cerebro_db.layout import Input, Layout, Target
from cerebro_db.options import Options
from cerebro_db.plan import ConfigPlan, Plan, SegmentPlan
from cerebro_db.sqltext import TableName

MLP = {"model": "mlp", "hidden": [4]}
CNN = {"model": "cnn", "channels": [2], "input_shape": [1, 4, 4]}
ADAM = {"optimizer": "adam", "lr": 0.01, "loss": "cross_entropy", "metrics": ["accuracy"]}
IMAGES = Input("img", "array", "|u1", (16,), ("img",))
LAYOUT = Layout((IMAGES,), Target("y", "class", ">i4", (), "y", "text", ("a", "b"), 2))


def plan(configs: Sequence[Tuple[Any, Dict[str, Any], str]], segments: int = 2, fuse: str = "always") -> Plan:
    table = TableName("public", "packed")
    planned = tuple(
        ConfigPlan(key, 1, json.dumps(arch), json.dumps(compiled), fitted)
        for key, (arch, compiled, fitted) in enumerate(configs, start=1)
    )
    return Plan(
        source=table, packed=table, packed_at="", validation=None, layout=LAYOUT,
        segments=tuple(SegmentPlan(number, number, 10) for number in range(segments)), configs=planned, epochs=1,
        metrics_frequency=1, options=Options(fuse=fuse), outputs={}, threads=1,
    )  # fmt: skip


def sizes(found: Sequence[Sequence[int]]) -> List[int]:
    return sorted(map(len, found))


def test_what_differs_in_numbers_only_goes_together() -> None:
    rates = [{**ADAM, "lr": lr, "weight_decay": decay} for lr in (0.1, 0.01) for decay in (0, 0.1)]
    (together,) = fusion.fusible(plan([(MLP, compiled, "batch_size=8") for compiled in rates]))
    assert together == (1, 2, 3, 4)


@pytest.mark.parametrize(("arch", "compiled", "fitted"), [
    ({"model": "mlp", "hidden": [5]}, ADAM, "batch_size=8"),
    (MLP, {**ADAM, "optimizer": "sgd"}, "batch_size=8"),
    (MLP, {**ADAM, "metrics": ["top_1_accuracy"]}, "batch_size=8"),
    (MLP, {**ADAM, "amsgrad": True}, "batch_size=8"),
    (MLP, ADAM, "batch_size=9"),
    (MLP, ADAM, "batch_size=8, epochs=2"),
])  # fmt: skip
def test_what_a_pass_must_share_keeps_configs_apart(arch: Any, compiled: Dict[str, Any], fitted: str) -> None:
    assert fusion.fusible(plan([(MLP, ADAM, "batch_size=8"), (arch, compiled, fitted)])) == [(1,), (2,)]


def test_order_of_keys_in_an_architecture_does_not_matter() -> None:
    turned = dict(reversed(MLP.items()))
    assert fusion.fusible(plan([(MLP, ADAM, "batch_size=8"), (turned, ADAM, "batch_size=8")])) == [(1, 2)]


def test_convolutions_are_left_alone() -> None:
    assert fusion.fusible(plan([(CNN, ADAM, "batch_size=8")] * 3)) == []
    assert fusion.groups(plan([(CNN, ADAM, "batch_size=8")] * 3), {}) == ()


@pytest.mark.parametrize(("segments", "expected"), [(1, [6]), (2, [3, 3]), (3, [2, 2, 2]), (4, [2, 2])])
def test_there_is_a_group_for_every_segment(segments: int, expected: List[int]) -> None:
    found = fusion.groups(plan([(MLP, ADAM, "batch_size=8")] * 6, segments), {})
    assert sizes(found) == expected
    assert len({key for group in found for key in group}) == sum(expected)


def test_off_means_none() -> None:
    assert fusion.groups(plan([(MLP, ADAM, "batch_size=8")] * 6, fuse="off"), {}) == ()


def test_no_group_is_wider_than_pays() -> None:
    found = fusion.groups(plan([(MLP, ADAM, "batch_size=8")] * 40, segments=1), {})
    assert max(sizes(found)) <= fusion.WIDEST
    assert sum(sizes(found)) == 40


def test_a_kind_of_optimizer_without_a_fused_kernel_is_left_alone() -> None:
    rms = {**ADAM, "optimizer": "rmsprop"}
    assert fusion.groups(plan([(MLP, rms, "batch_size=8")] * 4), {}) == ()


def test_one_in_the_groups_of_a_plan_trains_what_it_would_alone() -> None:
    """A probe of real batches: whatever it finds, each config is in one group at most."""
    found = fusion.groups(plan([(MLP, ADAM, "batch_size=8")] * 5, fuse="auto"), {})
    assert len([key for group in found for key in group]) == len({key for group in found for key in group})
    assert all(1 < len(group) <= 3 for group in found)


@pytest.mark.parametrize(("seconds", "width"), [
    ({8: 1.0, 4: 1.0, 2: 1.0, 1: 1.0}, 8),  # calls are all that it costs
    ({8: 8.0, 4: 4.0, 2: 2.0, 1: 1.0}, 1),  # arithmetic is
    ({8: 8.0, 4: 2.0, 2: 1.5, 1: 1.0}, 4),
    ({8: 7.5, 4: 3.8, 2: 1.9, 1: 1.0}, 1),  # less than a tenth is not worth other bits
])  # fmt: skip
def test_the_fastest_width_is_taken_if_it_pays(seconds: Dict[int, float], width: int) -> None:
    assert fusion.best_width(8, seconds.__getitem__) == width


def test_a_stack_that_is_too_large_is_infinitely_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion, "STACK_BYTES", 3000)
    given = plan([(MLP, ADAM, "batch_size=8")] * 4)
    probe = fusion.Probe(given, [(1, 2, 3, 4)], {})
    assert probe(0, 4) == float("inf")
    assert probe(0, 2) < float("inf")


def test_groups_are_cut_until_the_busiest_segment_is_the_bound() -> None:
    """Two sets of equal cost on four segments: each is cut in two; a third part would only add work."""

    def seconds(number: int, width: int) -> float:
        return 1.0 + 0.1 * width

    assert fusion.spread([range(8), range(8)], [8, 8], seconds, 0, 4) == [[4, 4], [4, 4]]
    assert fusion.spread([range(8), range(8)], [8, 8], seconds, 0, 2) == [[8], [8]]
    assert fusion.spread([range(8)], [4], seconds, 0, 2) == [[4, 4]]


def test_configs_alone_keep_segments_busy_too() -> None:
    def seconds(number: int, width: int) -> float:
        return 1.0

    assert fusion.spread([range(4)], [4], seconds, 8, 2) == [[4]]
    assert fusion.spread([range(4)], [4], seconds, 0, 2) == [[2, 2]]


def test_made_rows_are_as_a_packed_table_gives_them() -> None:
    words = Input("c", "categorical", ">i4", (2,), ("u", "v"), (("p",), ("q",)))
    layout = replace(LAYOUT, inputs=(*LAYOUT.inputs, words))
    (images, codes), target = fusion.made_batch(layout, 5)
    assert (tuple(images.shape), tuple(codes.shape), tuple(target.shape)) == ((5, 16), (5, 2), (5,))
    assert codes.max() == 0
    assert images.abs().max() == 1
