"""Models of 1 to 500 MB: what a hop costs, what is written for it, and whether compression would pay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterator, List

import cerebro_db
from cerebro_db.client import connect
from cerebro_db.sqltext import Fragment, fill, ident
from experiments import codecs
from experiments.measured import Bench
from experiments.results import Codec, Row, Sample
from experiments.settings import Asked
from experiments.workloads.base import Size
from experiments.workloads.registry import find

_STATE = Fragment("select model_weights, optimizer_state from {models} order by mst_key limit 1")


@dataclass(frozen=True)
class Settings(Asked):
    workload: str
    strategy: str
    segments: int
    rows: int
    #: Of weights and optimizer [MB].
    state_mb: List[int]
    #: The state that is compressed; one of state_mb.
    codec_mb: int


def measure(bench: Bench, asked: Settings) -> Iterator[Row]:
    size = Size(asked.rows, asked.validation_rows, asked.segments)
    for megabytes in asked.state_mb:
        configs = find(asked.workload).configs("sized", megabytes)
        grid = bench.grid(asked.workload, size, configs, asked.epochs)
        for repeat in range(1, asked.repeats + 1):
            sample, run = bench.fit(grid, asked.strategy, asked.options, f"{megabytes} MB", repeat)
            yield sample
        if megabytes == asked.codec_mb:
            yield from _codecs(bench, sample, run)


def _codecs(bench: Bench, sample: Sample, run: cerebro_db.Run) -> Iterator[Codec]:
    models = fill(_STATE, models=ident(run.run.iloc[0]["model_output_table"].rsplit(".", 1)[-1]))
    with connect(bench.dsn) as db:
        row = db.rows(models)[0]
    blob = bytes(row["model_weights"]) + bytes(row["optimizer_state"])
    hop_mb_s = (sample.hopped_mb or 0.0) / (sample.hop or 1.0)
    if "zstd 1" not in codecs.codecs():
        bench.say("zstd is left out: package zstandard is not installed; it is in the extra 'experiments'")
    for name in codecs.codecs():
        found = codecs.measure(name, blob)
        yield Codec(name, len(blob) / 1e6, found.ratio, found.in_mb_s, found.out_mb_s, hop_mb_s)
