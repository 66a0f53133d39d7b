"""The training loop: the only one, whatever the strategy."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Callable, Iterable, Iterator, Optional, Tuple, TypeVar

import torch
from torch import Tensor, nn

from cerebro_db.batches import Batch
from cerebro_db.state import Trainee

#: Called between batches; may raise to end the hop (an interrupt).
Check = Callable[[], None]
Item = TypeVar("Item")
#: Rows whose outputs wait until their metric is taken together.
SCORED_ROWS = 4096


@dataclass(frozen=True)
class Objective:
    """What a config minimises and reports."""

    #: (output, target) -> mean over the batch, a scalar tensor.
    loss: Callable[[Tensor, Tensor], Tensor]
    #: (output, target) -> sum over the batch's rows, a scalar tensor.
    metric: Optional[Callable[[Tensor, Tensor], Tensor]] = None
    #: Largest norm of all gradients together; None leaves them.
    clip_norm: Optional[float] = None


@dataclass
class Tally:
    """Sums over the rows of a pass."""

    rows: int = 0
    loss_sum: float = 0.0
    metric_sum: float = 0.0
    #: A loss was NaN or infinite; the pass ended there.
    diverged: bool = False
    #: Waiting for rows [s].
    data_seconds: float = 0.0
    #: The whole pass [s].
    seconds: float = 0.0

    @property
    def loss(self) -> Optional[float]:
        return self.loss_sum / self.rows if self.rows else None

    @property
    def metric(self) -> Optional[float]:
        return self.metric_sum / self.rows if self.rows else None


def train_hop(trainee: Trainee, batches: Iterable[Batch], objective: Objective, check: Check) -> Tally:
    """Train over the batches once; the loss and metric are those of this very pass.

    Ends early, with `diverged`, at the first loss that is not finite.
    """
    training = Training(trainee, objective, check)
    training.feed(batches)
    return training.end()


class Training:
    """A pass whose batches may come in several portions. Bits and sums do not depend on how they are cut."""

    def __init__(self, trainee: Trainee, objective: Objective, check: Check) -> None:
        self._trainee = trainee
        self._objective = objective
        self._check = check
        self._tally = Tally()
        self._scores = _Scores(self._tally, objective.metric)
        self._started = self._paused = time.perf_counter()
        trainee.module.train()

    @property
    def diverged(self) -> bool:
        """No further batch is wanted."""
        return self._tally.diverged

    def feed(self, batches: Iterable[Batch]) -> None:
        """Train over these; the time since the last portion counts as waiting for rows."""
        tally = self._tally
        tally.data_seconds += time.perf_counter() - self._paused
        for inputs, target in _timed(batches, tally):
            output, loss = train_batch(self._trainee, inputs, target, self._objective)
            _count(tally, target, loss)
            self._scores.add(output, target)
            if tally.diverged:
                break
            self._check()
        self._paused = time.perf_counter()

    def end(self) -> Tally:
        """What all portions came to."""
        self._scores.finish()
        self._trainee.rows += self._tally.rows
        self._tally.seconds = time.perf_counter() - self._started
        return self._tally


def train_batch(
    trainee: Trainee, inputs: Tuple[Tensor, ...], target: Tensor, objective: Objective
) -> Tuple[Tensor, Tensor]:
    """One optimizer step; gives the output [rows, ...] before it and the mean loss."""
    trainee.optimizer.zero_grad()
    output = trainee.module(*inputs)
    loss = objective.loss(output, target)
    loss.backward()  # type: ignore[no-untyped-call]
    if objective.clip_norm is not None:
        nn.utils.clip_grad_norm_(trainee.module.parameters(), objective.clip_norm)
    trainee.optimizer.step()
    trainee.steps += 1
    return output.detach(), loss.detach()


def evaluate(module: nn.Module, batches: Iterable[Batch], objective: Objective, check: Check) -> Tally:
    """Loss and metric over the batches without changing the module; its mode is put back."""
    tally = Tally()
    started = time.perf_counter()
    was_training = module.training
    module.train(False)
    scores = _Scores(tally, objective.metric)
    with torch.no_grad():
        for inputs, target in _timed(batches, tally):
            output = module(*inputs)
            _count(tally, target, objective.loss(output, target))
            scores.add(output, target)
            check()
    scores.finish()
    module.train(was_training)
    tally.seconds = time.perf_counter() - started
    return tally


class _Scores:
    """Sums the metric over many batches at a time: a small batch's metric costs more in calls than in work.

    Outputs and targets are copied side by side. Kept as they are, they would lie between the large blocks
    that every batch frees, which the allocator then cannot use again: a CNN took 4 % longer.
    """

    def __init__(self, tally: Tally, metric: Optional[Callable[[Tensor, Tensor], Tensor]]) -> None:
        self._tally = tally
        self._metric = metric
        self._kept: Optional[Tuple[Tensor, Tensor]] = None
        self._rows = 0

    def add(self, output: Tensor, target: Tensor) -> None:
        if self._metric is None:
            return
        rows = int(target.shape[0])
        if self._kept is None or self._rows + rows > len(self._kept[1]):
            self.finish()
            self._kept = self._room(output, max(rows, SCORED_ROWS)), self._room(target, max(rows, SCORED_ROWS))
        for kept, new in zip(self._kept, (output, target)):
            kept[self._rows : self._rows + rows] = new
        self._rows += rows

    def finish(self) -> None:
        if self._metric is None or self._kept is None or not self._rows:
            return
        outputs, targets = self._kept
        self._tally.metric_sum += self._metric(outputs[: self._rows], targets[: self._rows]).item()
        self._rows = 0

    @staticmethod
    def _room(like: Tensor, rows: int) -> Tensor:
        return torch.empty((rows, *like.shape[1:]), dtype=like.dtype)


def _count(tally: Tally, target: Tensor, loss: Tensor) -> None:
    rows = int(target.shape[0])
    value = loss.item()
    tally.rows += rows
    tally.loss_sum += value * rows
    tally.diverged = tally.diverged or not math.isfinite(value)


def _timed(items: Iterable[Item], tally: Tally) -> Iterator[Item]:
    """The items, with the time spent waiting for them added to the tally."""
    iterator = iter(items)
    while True:
        started = time.perf_counter()
        item = next(iterator, None)
        tally.data_seconds += time.perf_counter() - started
        if item is None:
            return
        yield item
