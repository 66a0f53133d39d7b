"""Hops of any strategy one at a time, each beside an epoch of the raw loop: how they compare per unit of time.

A core of a shared machine is up to twice as fast in one minute as in the next, so the two alternate by the second.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import Dict, List

from cerebro_db import catalog
from cerebro_db.client import PsycopgDatabase
from cerebro_db.client_sessions import ClientSessions, Stop
from cerebro_db.hopper import Hop, HopFinished, SegmentUp, StartHop
from cerebro_db.planning import FitRequest, plan_fit
from cerebro_db.strategies.base import Report, Strategy
from cerebro_db.strategies.registry import open_strategy
from experiments.bench.raw_loop import Config, RawLoops

LOCK_SECONDS = 10.0


@dataclass(frozen=True)
class Job:
    """A packed table of one segment and a selection table; `configs` says what each mst_key is in plain PyTorch."""

    packed: str
    selection: str
    configs: Dict[int, Config]


def compare(db: PsycopgDatabase, job: Job, strategy: str, raw: RawLoops, turns: int) -> float:
    """rows/s of a strategy over those of the raw loop, after an epoch of each that does not count."""
    request = FitRequest(
        job.packed, f"{job.selection}_{strategy}", job.selection, turns + 1, strategy=strategy, options='{"threads": 1}'
    )
    with ClientSessions(db, Stop(), LOCK_SECONDS) as sessions:
        plan = (planned := plan_fit(db, sessions, request, request.parsed_options(db), [])).plan
        with db.transaction():
            run_id = catalog.start_run(db, plan, planned.heading).run_id
        trainer = open_strategy(plan, sessions)
        try:
            while not trainer.ready(1.0):
                pass
            trainer.begin(run_id)
            _await(trainer, SegmentUp)
            return _alternated(trainer, job, raw, turns)
        finally:
            trainer.close()


def _alternated(trainer: Strategy, job: Job, raw: RawLoops, turns: int) -> float:
    theirs: List[float] = []
    ours: List[float] = []
    for epoch in range(1, turns + 2):
        for key, config in job.configs.items():
            theirs.append(raw.epoch(config))
            started = time.perf_counter()
            trainer.submit(StartHop(Hop(epoch, key, 0), last=False))
            _await(trainer, HopFinished)
            ours.append(time.perf_counter() - started)
    first = len(job.configs)
    return sum(theirs[first:]) / sum(ours[first:])


def _await(trainer: Strategy, kind: type) -> Report:
    """The next report, which must be of this kind."""
    (report,) = next(filter(None, iter(partial(trainer.wait, 1.0), None)))
    assert isinstance(report.event, kind), report
    return report
