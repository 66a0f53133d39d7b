"""The same grid by Model Hopper Parallelism and by model averaging: how the configs learn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterator

from experiments.measured import Bench, points_of_result, points_of_run
from experiments.results import Row
from experiments.settings import Asked
from experiments.workloads.base import Size
from experiments.workloads.registry import find


@dataclass(frozen=True)
class Settings(Asked):
    workload: str
    strategy: str
    #: Segments, and parts whose models are averaged.
    segments: int
    rows: int


def measure(bench: Bench, asked: Settings) -> Iterator[Row]:
    size = Size(asked.rows, asked.validation_rows, asked.segments)
    grid = bench.grid(asked.workload, size, find(asked.workload).configs("grid"), asked.epochs)
    sample, run = bench.fit(grid, asked.strategy, asked.options)
    yield sample
    yield from points_of_run(asked.workload, asked.strategy, run)
    sample, result = bench.baseline(grid, "averaging", asked.segments)
    yield sample
    yield from points_of_result(asked.workload, result)
