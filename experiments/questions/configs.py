"""The same rows for 4 to 64 configs, trained together where that is faster, and one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterator, List

from experiments.measured import Bench, fused
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
    configs: List[int]
    fuse: List[str]


def measure(bench: Bench, asked: Settings) -> Iterator[Row]:
    size = Size(asked.rows, asked.validation_rows, asked.segments)
    for count in asked.configs:
        grid = bench.grid(asked.workload, size, find(asked.workload).configs("uniform", count), asked.epochs)
        for variant, options in fused(asked.fuse):
            yield from bench.fits(grid, asked.strategy, {**asked.options, **options}, variant, asked.repeats)
