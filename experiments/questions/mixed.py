"""Fast and slow configs, and configs that are alike, in every order: how close to the shortest schedule there is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterator, List

from experiments.measured import Bench
from experiments.results import Row
from experiments.settings import Asked
from experiments.workloads.base import Size
from experiments.workloads.registry import find


@dataclass(frozen=True)
class Settings(Asked):
    workload: str
    strategy: str
    segments: int
    rows: int
    orders: List[str]
    #: Grids of the workload.
    grids: List[str]
    #: Configs, as multiples of the segments.
    times: List[int]


def measure(bench: Bench, asked: Settings) -> Iterator[Row]:
    size = Size(asked.rows, asked.validation_rows, asked.segments)
    for name in asked.grids:
        for times in asked.times:
            configs = find(asked.workload).configs(name, times * asked.segments)
            grid = bench.grid(asked.workload, size, configs, asked.epochs)
            for order in asked.orders:
                options = {**asked.options, "order": order}
                yield from bench.fits(grid, asked.strategy, options, f"{name}, {order}", asked.repeats)
