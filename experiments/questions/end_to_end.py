"""Every strategy, and every other way to train the same configs on the same rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Dict, Iterator, List

from experiments.measured import Bench, Grid, fused
from experiments.results import Row
from experiments.settings import Asked
from experiments.workloads.base import Size
from experiments.workloads.registry import find


@dataclass(frozen=True)
class Settings(Asked):
    workloads: List[str]
    #: Training rows by workload.
    rows: Dict[str, int]
    #: Segments, and processes of the baselines.
    segments: int
    strategies: List[str]
    #: Strategies that are measured with fused configs and without.
    compare_fused: List[str]
    #: Strategies that are called a second time in the same session.
    compare_warm: List[str]
    baselines: List[str]
    #: Baselines that are measured a second time, with options of their own.
    baseline_options: Dict[str, Dict[str, Any]]


def measure(bench: Bench, asked: Settings) -> Iterator[Row]:
    for workload in asked.workloads:
        size = Size(asked.rows[workload], asked.validation_rows, asked.segments)
        grid = bench.grid(workload, size, find(workload).configs("grid"), asked.epochs)
        for repeat in range(1, asked.repeats + 1):
            yield from _strategies(bench, asked, grid, repeat)
            for name in asked.baselines:
                train = partial(bench.baseline, grid, name, asked.segments, repeat=repeat)
                yield from bench.tried(name, train)
                if name in asked.baseline_options:
                    yield from bench.tried(name, partial(train, asked.baseline_options[name]))


def _strategies(bench: Bench, asked: Settings, grid: Grid, repeat: int) -> Iterator[Row]:
    for strategy in asked.strategies:
        for variant, options in fused(["auto", "off"] if strategy in asked.compare_fused else ["auto"]):
            again = not variant and strategy in asked.compare_warm
            fit = partial(bench.fit, grid, strategy, {**asked.options, **options})
            with bench.sessions(warm=again, ready=False):
                yield from bench.tried(strategy, partial(fit, variant, repeat))
                if again:
                    yield from bench.tried(strategy, partial(fit, "warm", repeat))
