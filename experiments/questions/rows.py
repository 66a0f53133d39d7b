"""The same configs on 1 to 8 times the rows."""

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
    configs: int
    rows: List[int]


def measure(bench: Bench, asked: Settings) -> Iterator[Row]:
    configs = find(asked.workload).configs("uniform", asked.configs)
    sizes = [Size(rows, asked.validation_rows, asked.segments) for rows in asked.rows]
    grids = [bench.grid(asked.workload, size, configs, asked.epochs) for size in sizes]
    for repeat in range(1, asked.repeats + 1):  # each size in turn: a machine is faster now and slower then
        for grid in grids:
            yield bench.fit(grid, asked.strategy, asked.options, repeat=repeat)[0]
