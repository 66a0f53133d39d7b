"""PyTorch DistributedDataParallel over gloo: one config at a time, its batch divided among the ranks.

The batch size of a config is that of all ranks together, so that the steps are those of the other approaches.
"""

from __future__ import annotations

import sys
from typing import List

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from experiments.baselines import ranks
from experiments.baselines.base import Epoch, Job
from experiments.baselines.loop import Clock, Training, cut
from experiments.baselines.team import is_member
from experiments.workloads.base import Arrays, Data

#: Between the seeds of two epochs: more than there are configs.
EPOCH_SEEDS = 1_000_003


def fit(job: Job, number: int, data: Data, clock: Clock) -> List[Epoch]:
    started = clock.at()
    training = Training(job, number, data)
    plain = training.module
    training.module = DistributedDataParallel(plain)
    share = ranks.own_share(data.validation)
    clock.spent("start", started)
    epochs = []
    for epoch in range(job.epochs):
        started = clock.at()
        _pass(training, data.training, order(data.training.rows, job, number, epoch))
        clock.trained(data.training.rows, started)
        epochs.append(ranks.validated(plain, share, data.validation.rows, clock))
    return epochs


def order(rows: int, job: Job, number: int, epoch: int) -> Tensor:
    """The order of an epoch of a config, which all ranks draw alike."""
    generator = torch.Generator().manual_seed(job.seed + number + EPOCH_SEEDS * epoch)
    return torch.randperm(rows, generator=generator)


def _pass(training: Training, arrays: Arrays, rows: Tensor) -> None:
    """Each rank takes its part of every batch."""
    size, rank = dist.get_world_size(), dist.get_rank()
    for index in cut(rows, training.config.batch_size):
        if len(index) >= size:  # each rank must have a row to have a gradient
            training.step(arrays, index[rank::size])


if __name__ == "__main__":
    sys.exit(ranks.follow(fit) if is_member(sys.argv) else ranks.lead("ddp", "experiments.baselines.ddp"))
