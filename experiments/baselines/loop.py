"""The training loop that one writes by hand: rows in memory, a fresh order each epoch, torch's optimizers."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import List, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from experiments.baselines.base import Epoch, Job, Outcome
from experiments.workloads.base import Arrays, Config, Data
from experiments.workloads.registry import find

OPTIMIZERS = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}
#: Rows of a validation batch; a convolution over more takes longer per row here, since its outputs leave the cache.
VALIDATED_ROWS = 256


@dataclass
class Clock:
    """Seconds since training began, and where they went."""

    #: `time.perf_counter()` of the beginning, which all processes of a Linux machine share.
    zero: float = field(default_factory=time.perf_counter)
    done: Outcome = field(default_factory=Outcome)

    def at(self) -> float:
        return time.perf_counter() - self.zero

    def spent(self, part: str, started: float) -> None:
        """Add the time since `started`, a value of `at`."""
        self.done.parts[part] = self.done.parts.get(part, 0.0) + self.at() - started

    def trained(self, rows: int, started: float) -> None:
        """Add a pass over so many rows that began at `started`."""
        self.spent("train", started)
        self.done.rows += rows


class Training:
    """One config in training."""

    def __init__(self, job: Job, number: int, data: Data) -> None:
        self.config: Config = job.configs[number]
        torch.manual_seed(job.seed + number)
        self.module: nn.Module = find(job.workload).module(self.config, data)
        make = OPTIMIZERS[self.config.optimizer]
        self.optimizer = make(self.module.parameters(), **self.config.optimizer_arguments)

    def epoch(self, arrays: Arrays) -> None:
        """A pass over all rows."""
        for index in cut(torch.randperm(arrays.rows), self.config.batch_size):
            self.step(arrays, index)

    def step(self, arrays: Arrays, index: Tensor) -> None:
        self.optimizer.zero_grad()
        loss = functional.cross_entropy(self.module(*batch(arrays, index)), arrays.target.index_select(0, index))
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()


def cut(index: Tensor, size: int) -> Tuple[Tensor, ...]:
    """Pieces of `size` numbers, the last as short as it is."""
    return tuple(torch.split(index, size))


def batch(arrays: Arrays, index: Tensor) -> Tuple[Tensor, ...]:
    """The inputs of these rows; bytes become float32."""
    taken = (each.index_select(0, index) for each in arrays.inputs)
    return tuple(each.float() if each.dtype == torch.uint8 else each for each in taken)


def validate(module: nn.Module, arrays: Arrays) -> Tuple[float, float]:
    """Sums over the rows: those that are right, and the loss."""
    right, loss = 0, 0.0
    module.train(False)
    with torch.no_grad():
        for index in cut(torch.arange(arrays.rows), VALIDATED_ROWS):
            output, target = module(*batch(arrays, index)), arrays.target.index_select(0, index)
            right += int(output.argmax(1).eq(target).sum())
            loss += functional.cross_entropy(output, target, reduction="sum").item()
    module.train()
    return right, loss


def fit(job: Job, number: int, data: Data, clock: Clock) -> None:
    """Train a config for all its epochs and validate after each; `clock.done` has it then."""
    started = clock.at()
    training = Training(job, number, data)
    epochs: List[Epoch] = []
    clock.done.epochs.append(epochs)
    for _ in range(job.epochs):
        training.epoch(data.training)
        clock.trained(data.training.rows, started)
        started = clock.at()
        right, loss = validate(training.module, data.validation)
        clock.spent("validate", started)
        started = clock.at()
        rows = data.validation.rows
        epochs.append(Epoch(right / rows, loss / rows, started))


def probe(job: Job, number: int, data: Data, steps: int = 5) -> float:
    """About how long an epoch of a config takes [s]: the shortest of some steps, times their number."""
    training = Training(job, number, data)
    size = min(training.config.batch_size, data.training.rows)
    index = torch.arange(size)
    taken = []
    for _ in range(steps):
        started = time.perf_counter()
        training.step(data.training, index)
        taken.append(time.perf_counter() - started)
    return min(taken) * data.training.rows / size


def warm(job: Job, data: Data) -> None:
    """What happens once in a process only, such as imports at the first step of an optimizer."""
    torch.set_num_threads(job.threads)
    probe(job, 0, data, 1)
