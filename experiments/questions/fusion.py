"""Configs of one architecture trained together, 1 to 16 at a time, over the same ones one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterator, List

from experiments.measured import Bench, fused
from experiments.results import Row
from experiments.settings import Asked
from experiments.workloads.base import Config, Size


@dataclass(frozen=True)
class Settings(Asked):
    strategy: str
    # One of each per architecture.
    workloads: List[str]
    models: List[str]
    batches: List[int]
    rows: List[int]
    #: How many at a time; one segment has them all.
    configs: List[List[int]]
    fuse: List[str]


def measure(bench: Bench, asked: Settings) -> Iterator[Row]:
    for workload, model, batch, rows, counts in zip(
        asked.workloads, asked.models, asked.batches, asked.rows, asked.configs
    ):
        for count in counts:
            configs = [Config(model, 1e-3 / (1 + place), 0.0, batch) for place in range(count)]
            grid = bench.grid(workload, Size(rows, asked.validation_rows, segments=1), configs, asked.epochs)
            for variant, options in fused(asked.fuse):
                named = "; ".join(filter(None, (label(configs[0]), variant)))
                yield from bench.fits(grid, asked.strategy, {**asked.options, **options}, named, asked.repeats)


def label(config: Config) -> str:
    """`tabular 64-64, batch 32`."""
    found = config.architecture
    return f"{found['model']} {'-'.join(map(str, found['hidden']))}, batch {config.batch_size}"
