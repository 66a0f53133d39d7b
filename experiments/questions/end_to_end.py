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

#: Baselines, each measured with some sets of options.
Ways = Dict[str, List[Dict[str, Any]]]


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
    #: Strategies that are called again in the same session, by turns with the contenders: the speed of a shared machine
    #: drifts within minutes. Of the turns the fastest of each counts.
    compare_warm: List[str]
    turns: int
    contenders: Ways
    #: Those that are measured once.
    baselines: Ways


def measure(bench: Bench, asked: Settings) -> Iterator[Row]:
    for workload in asked.workloads:
        size = Size(asked.rows[workload], asked.validation_rows, asked.segments)
        grid = bench.grid(workload, size, find(workload).configs("grid"), asked.epochs)
        for repeat in range(1, asked.repeats + 1):
            yield from _strategies(bench, asked, grid, repeat)
            yield from _baselines(bench, asked, grid, asked.baselines, repeat)


def _strategies(bench: Bench, asked: Settings, grid: Grid, repeat: int) -> Iterator[Row]:
    for strategy in asked.strategies:
        for variant, options in fused(["auto", "off"] if strategy in asked.compare_fused else ["auto"]):
            again = not variant and strategy in asked.compare_warm
            fit = partial(bench.fit, grid, strategy, {**asked.options, **options})
            with bench.sessions(warm=again, ready=False):
                yield from bench.tried(strategy, partial(fit, variant, repeat))
                for turn in range(1, again * asked.turns + 1):
                    yield from bench.tried(strategy, partial(fit, "warm", turn))
                    yield from _baselines(bench, asked, grid, asked.contenders, turn)


def _baselines(bench: Bench, asked: Settings, grid: Grid, ways: Ways, repeat: int) -> Iterator[Row]:
    for name, settings in ways.items():
        for options in settings:
            yield from bench.tried(name, partial(bench.baseline, grid, name, asked.segments, options, repeat))
