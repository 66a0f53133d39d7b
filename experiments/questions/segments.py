"""The same rows on 1 to 8 segments."""

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
    strategies: List[str]
    rows: int
    configs: int
    segments: List[int]


def measure(bench: Bench, asked: Settings) -> Iterator[Row]:
    configs = find(asked.workload).configs("uniform", asked.configs)
    for segments in asked.segments:
        grid = bench.grid(asked.workload, Size(asked.rows, asked.validation_rows, segments), configs, asked.epochs)
        for strategy in asked.strategies:
            yield from bench.fits(grid, strategy, asked.options, repeats=asked.repeats)
