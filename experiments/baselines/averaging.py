"""Model averaging: every epoch each segment is fitted from the same weights, then these are averaged by rows.

Segments are as many and as large as the database's, and drawn by chance like those. A segment keeps its optimizer,
whose moments are not averaged; published ones (MADlib's fit) do the same.
"""

from __future__ import annotations

import sys
from typing import Dict, List, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from experiments.baselines import ranks
from experiments.baselines.base import Epoch, Job
from experiments.baselines.loop import Clock, Training
from experiments.baselines.team import is_member
from experiments.workloads.base import Arrays, Data

Weights = Dict[str, Tensor]
#: Between the seeds of two passes: more than there are configs.
SEEDS = 1_000_003


def averaged(weights: Sequence[Weights], rows: Sequence[int]) -> Weights:
    """Sums of the weights times their rows, divided by all rows."""
    total = sum(rows)
    return {
        name: sum((each[name] * (n / total) for each, n in zip(weights, rows)), torch.zeros_like(weights[0][name]))
        for name in weights[0]
    }


def segments(rows: int, count: int, seed: int) -> List[Tensor]:
    """Rows by segment: a partition by chance into `count` parts that differ by one row at most."""
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(seed))
    return list(order.tensor_split(count))


def fit(job: Job, number: int, data: Data, clock: Clock) -> List[Epoch]:
    started = clock.at()
    parts = segments(data.training.rows, job.size.segments, job.seed)
    numbers = ranks.ranges(len(parts))
    own = [data.training.part(parts[segment]) for segment in numbers]
    # A rank without a segment still takes part in the averages.
    trainings = [Training(job, number, data) for _ in numbers or (0,)]
    share = ranks.own_share(data.validation)
    clock.spent("start", started)
    epochs = []
    for epoch in range(job.epochs):
        started = clock.at()
        for segment, training, arrays in zip(numbers, trainings, own):
            one_pass(training, arrays, job.seed + number + SEEDS * (epoch * len(parts) + segment + 1))
        clock.trained(data.training.rows, started)
        _merge(trainings, own, data.training.rows, clock)
        epochs.append(ranks.validated(trainings[0].module, share, data.validation.rows, clock))
    return epochs


def one_pass(training: Training, arrays: Arrays, seed: int) -> None:
    """A segment's rows once, in an order of its own."""
    torch.manual_seed(seed)
    training.epoch(arrays)


def _merge(trainings: Sequence[Training], own: Sequence[Arrays], rows: int, clock: Clock) -> None:
    """Give all segments of all ranks the average."""
    started = clock.at()
    states = [training.module.state_dict() for training in trainings]
    shares = [arrays.rows for arrays in own] or [0]
    merged = averaged(states, shares) if own else {name: torch.zeros_like(value) for name, value in states[0].items()}
    for name in sorted(merged):
        merged[name] *= sum(shares) / rows
        dist.all_reduce(merged[name])
    for training in trainings:
        training.module.load_state_dict(merged)
    clock.spent("merge", started)


if __name__ == "__main__":
    sys.exit(ranks.follow(fit) if is_member(sys.argv) else ranks.lead("averaging", "experiments.baselines.averaging"))
