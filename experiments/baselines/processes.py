"""Processes that share the configs, each with all rows in its memory: what two cores do without a framework.

The parent hands the configs out from the longest to the shortest, each to the process that is free first; a probe of a
few steps before the training says how long they take.
"""

from __future__ import annotations

import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

from experiments.baselines.base import Job, Outcome, finish, read_job
from experiments.baselines.loop import Clock, fit, probe, warm
from experiments.baselines.team import Member, is_member, serve, team
from experiments.resources import Meter
from experiments.workloads.registry import find


def main() -> int:
    job = read_job()
    with team("experiments.baselines.processes", job, [{}] * job.processes) as members:
        order = longest_first(job, lambda number: float(members[0].ask(probe=number)["seconds"]))
        with Meter() as meter:
            clock = Clock()
            found = _share(members, order, clock.zero)
        return finish("processes", together(found), meter, job.processes)


def longest_first(job: Job, seconds: Callable[[int], float]) -> List[int]:
    """The numbers of the configs; `seconds` is asked once per architecture and batch size."""
    known: Dict[Tuple[str, int], float] = {}
    for number, config in enumerate(job.configs):
        if (config.model, config.batch_size) not in known:
            known[config.model, config.batch_size] = seconds(number)
    kinds = [(config.model, config.batch_size) for config in job.configs]
    return sorted(range(len(kinds)), key=lambda number: -known[kinds[number]])


def _share(members: Sequence[Member], order: Sequence[int], zero: float) -> Dict[int, Outcome]:
    """What each config came to, by its number."""
    waiting = iter(order)
    found: Dict[int, Outcome] = {}

    def work(member: Member) -> None:
        for number in waiting:  # an iterator of a list gives each item to one thread
            found[number] = Outcome.from_json(member.ask(train=number, zero=zero))

    with ThreadPoolExecutor(len(members)) as pool:
        list(pool.map(work, members))
    return found


def together(found: Mapping[int, Outcome]) -> Outcome:
    """One outcome of all configs, in their order."""
    parts: Counter[str] = Counter()
    for outcome in found.values():
        parts.update(outcome.parts)
    epochs = [found[number].epochs[0] for number in sorted(found)]
    return Outcome(epochs, dict(parts), sum(outcome.rows for outcome in found.values()))


def member(job: Job) -> Callable[[Dict[str, Any]], Mapping[str, Any]]:
    data = find(job.workload).arrays(job.size)
    warm(job, data)

    def handle(message: Dict[str, Any]) -> Mapping[str, Any]:
        if "probe" in message:
            return {"seconds": probe(job, message["probe"], data)}
        clock = Clock(message["zero"])
        fit(job, message["train"], data, clock)
        return asdict(clock.done)

    return handle


if __name__ == "__main__":
    sys.exit(serve(member) if is_member(sys.argv) else main())
