"""Processes of torch.distributed over gloo on this machine, which do the same work on different rows."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Tuple

import torch
import torch.distributed as dist
from torch import nn

from experiments.baselines.base import Epoch, Job, Outcome, finish, read_job
from experiments.baselines.loop import Clock, validate, warm
from experiments.baselines.team import serve, team, variable
from experiments.resources import Meter
from experiments.workloads.base import Arrays, Data
from experiments.workloads.registry import find

#: Trains config `number` and gives its epochs: (job, number, data, clock).
Fit = Callable[[Job, int, Data, Clock], List[Epoch]]


def lead(approach: str, module: str) -> int:
    """The parent's side: all members train every config in turn."""
    job = read_job()
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder) / "store")
        ranks = [{"TEAM_STORE": store, "TEAM_RANK": str(rank)} for rank in range(job.processes)]
        with team(module, job, ranks) as members:
            with Meter() as meter:
                clock = Clock()
                for member in members:
                    member.tell(zero=clock.zero)
                found = [Outcome.from_json(member.hear()) for member in members]
            parts = {name: sum(each.parts[name] for each in found) for name in found[0].parts}
            return finish(approach, Outcome(found[0].epochs, parts, found[0].rows), meter, job.processes)


def follow(fit: Fit) -> int:
    """A member's side."""

    def start(job: Job) -> Callable[[Dict[str, Any]], Mapping[str, Any]]:
        data = find(job.workload).arrays(job.size)
        warm(job, data)
        method, rank = f"file://{variable('TEAM_STORE')}", int(variable("TEAM_RANK"))
        dist.init_process_group("gloo", init_method=method, rank=rank, world_size=job.processes)

        def handle(message: Dict[str, Any]) -> Mapping[str, Any]:
            clock = Clock(message["zero"])
            for number in range(len(job.configs)):
                clock.done.epochs.append(fit(job, number, data, clock))
            return asdict(clock.done)

        return handle

    code = serve(start)
    dist.destroy_process_group()
    return code


def own_share(arrays: Arrays) -> Arrays:
    """Every n-th row, from the rank's own number on."""
    return arrays.part(torch.arange(dist.get_rank(), arrays.rows, dist.get_world_size()))


def validated(module: nn.Module, share: Arrays, rows: int, clock: Clock) -> Epoch:
    """Loss and accuracy over the shares of all ranks."""
    started = clock.at()
    sums = torch.tensor(validate(module, share), dtype=torch.float64)
    dist.all_reduce(sums)
    right, loss = sums.tolist()
    clock.spent("validate", started)
    return Epoch(right / rows, loss / rows, clock.at())


def ranges(count: int) -> Tuple[int, ...]:
    """The numbers from 0 to below `count` that are this rank's."""
    return tuple(range(dist.get_rank(), count, dist.get_world_size()))
