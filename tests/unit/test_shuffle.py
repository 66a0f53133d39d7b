"""Where buffers start among numbers that are known by bin."""

from __future__ import annotations

import math
from typing import List

from hypothesis import given
from hypothesis import strategies as st

from cerebro_db.shuffle import Cut, Steps, places

NUMBERS = st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=60, unique=True)


def counted(numbers: List[float], bins: int) -> List[int]:
    return [sum(int(number * bins) == k for number in numbers) for k in range(bins)]


@given(numbers=NUMBERS, buffers=st.integers(1, 20), bins=st.sampled_from([1, 2, 7, 256]))
def test_bins_and_places_find_the_first_number_of_each_buffer(numbers: List[float], buffers: int, bins: int) -> None:
    plan = Cut(len(numbers), 1, min(buffers, len(numbers)))
    found = places(counted(numbers, bins), plan.starts[1:])
    by_bin = {k: sorted(n for n in numbers if int(n * bins) == k) for k in range(bins)}
    assert [by_bin[number][place - 1] for number, place in found] == [sorted(numbers)[s] for s in plan.starts[1:]]


@given(numbers=NUMBERS, buffers=st.integers(1, 20), bins=st.sampled_from([1, 2, 7, 256]))
def test_steps_give_each_number_its_buffer(numbers: List[float], buffers: int, bins: int) -> None:
    plan = Cut(len(numbers), 1, min(buffers, len(numbers)))
    steps = Steps.of([sorted(numbers)[s] for s in plan.starts[1:]], bins)
    sizes = [0] * plan.buffers
    for number in numbers:
        here = int(number * bins)
        sizes[steps.below[here] + sum(number >= level[here] for level in steps.levels)] += 1
    assert sizes == [b - a for a, b in zip(plan.starts, [*plan.starts[1:], plan.rows])]


def test_fractions_find_the_first_row_of_each_buffer() -> None:
    plan = Cut(1_000_003, 7, 63)
    # percentile_disc takes the row whose number, from 1, is the fraction of the rows rounded up.
    first = [math.ceil(fraction * plan.rows) for fraction in plan.fractions]
    assert first == [1 + start for start in plan.starts]
