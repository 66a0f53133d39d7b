"""Batches: every row once, the same order cached or streamed, whatever the batch and window size."""

from __future__ import annotations

from typing import Iterator, List, Optional, Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cerebro_db.batches import SegmentRows, window_plan
from cerebro_db.layout import Input, Layout, Target

LAYOUT = Layout(
    inputs=(
        Input("img", "array", "|u1", (2, 2), ("img",)),
        Input("numeric_features", "numeric", ">f4", (3,), ("a", "b", "c"), mean=(0, 0, 0), deviation=(1, 1, 1)),
        Input("categorical_features", "categorical", ">i4", (1,), ("k",), vocabulary=(("x", "y"),)),
    ),
    target=Target("y", "class", ">i4", (), "y", "text", classes=("no", "yes"), outputs=2),
    normalizing_const=255.0,
)


class MemorySource:
    """Buffers of consecutive row numbers."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.rows = list(sizes)
        self.reads = 0

    def read(self, numbers: Optional[Sequence[int]]) -> Iterator[dict]:
        starts = np.concatenate([[0], np.cumsum(self.rows)])
        for number in range(len(self.rows)) if numbers is None else numbers:
            self.reads += 1
            ids = np.arange(starts[number], starts[number + 1])
            yield {
                "img": np.repeat(ids % 256, 4).astype("|u1").tobytes(),
                "numeric_features": np.stack([ids, ids * 2, -ids], 1).astype(">f4").tobytes(),
                "categorical_features": (ids % 3).astype(">i4").tobytes(),
                "y": (ids % 2).astype(">i4").tobytes(),
            }


def ids_of(batches) -> List[List[int]]:
    return [inputs[1][:, 0].to(torch.int64).tolist() for inputs, _ in batches]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 9), max_size=6), st.integers(1, 12), st.integers(1, 400), st.integers(0, 5))
def test_cached_and_streamed_rows_come_in_the_same_batches(sizes, batch_rows, window_bytes, seed):
    total = sum(sizes)
    cached = SegmentRows(MemorySource(sizes), LAYOUT, cache_bytes=10**9, window_bytes=window_bytes)
    streamed = SegmentRows(MemorySource(sizes), LAYOUT, cache_bytes=-1, window_bytes=window_bytes)
    key = (seed, 1, 0)
    first, second = ids_of(cached.epoch(key, batch_rows)), ids_of(streamed.epoch(key, batch_rows))
    assert first == second
    assert sorted(sum(first, [])) == list(range(total))
    assert [len(batch) for batch in first] == [
        min(batch_rows, total - start) for start in range(0, total, batch_rows)
    ]


def test_cached_rows_are_read_once_and_streamed_ones_in_every_epoch():
    for cache_bytes, reads in ((10**9, 3), (0, 9)):
        source = MemorySource([4, 4, 2])
        rows = SegmentRows(source, LAYOUT, cache_bytes, window_bytes=100)
        for epoch in (1, 2, 3):
            assert sum(map(len, ids_of(rows.epoch((0, epoch, 0), 3)))) == 10
        assert source.reads == reads


def test_the_order_depends_on_seed_epoch_and_segment_only():
    def order(*key):
        rows = SegmentRows(MemorySource([50, 50]), LAYOUT, 10**9, 10**6)
        return ids_of(rows.epoch(key, 100))

    assert order(1, 1, 1) == order(1, 1, 1)
    others = [order(2, 1, 1), order(1, 2, 1), order(1, 1, 2)]
    assert all(other != order(1, 1, 1) for other in others)


def test_the_order_is_pinned():
    """A resumed run must go on with the order it began with, also after an upgrade of NumPy."""
    plan = window_plan([3, 2, 4], (7, 2, 1), window_rows=6)
    assert [(window, rows.tolist()) for window, rows in plan] == [
        ([0], [0, 2, 1]),
        ([2, 1], [4, 2, 3, 0, 5, 1]),
    ]


def test_values_arrive_in_the_types_that_modules_take():
    rows = SegmentRows(MemorySource([5]), LAYOUT, 10**9, 10**6)
    ((img, numeric, codes), target), = rows.in_order(10)
    assert img.dtype == numeric.dtype == torch.float32
    assert codes.dtype == target.dtype == torch.int64
    assert torch.equal(img, (torch.arange(5.0) / 255).reshape(5, 1, 1).expand(5, 2, 2))
    assert torch.equal(numeric, torch.tensor([[i, 2 * i, -i] for i in range(5)], dtype=torch.float32))
    assert codes.flatten().tolist() == [0, 1, 2, 0, 1]
    assert target.tolist() == [0, 1, 0, 1, 0]


def test_evaluation_keeps_the_stored_order():
    for cache_bytes in (10**9, 0):
        rows = SegmentRows(MemorySource([3, 1, 3]), LAYOUT, cache_bytes, 10**6)
        assert ids_of(rows.in_order(4)) == [[0, 1, 2, 3], [4, 5, 6]]


def test_a_segment_without_rows_gives_no_batch():
    rows = SegmentRows(MemorySource([]), LAYOUT, 10**9, 10**6)
    assert list(rows.epoch((0, 1, 0), 4)) == []
    assert list(rows.in_order(4)) == []


def test_a_table_that_changed_is_noticed():
    source = MemorySource([4, 4])
    rows = SegmentRows(source, LAYOUT, 10**9, 10**6)
    source.read = lambda numbers: iter(list(MemorySource([4, 3]).read(None)))
    with pytest.raises(ValueError, match="holds 3 rows, expected 4"):
        list(rows.epoch((0, 1, 0), 4))
