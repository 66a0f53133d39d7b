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
    for rows in asked.rows:
        grid = bench.grid(asked.workload, Size(rows, asked.validation_rows, asked.segments), configs, asked.epochs)
        yield from bench.fits(grid, asked.strategy, asked.options, repeats=asked.repeats)
