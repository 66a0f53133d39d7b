"""The training loop: the only one, whatever the strategy."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Callable, Iterable, Iterator, List, Optional, Sequence, Tuple, TypeVar

import torch
from torch import Tensor

from cerebro_db.batches import Batch
from cerebro_db.learners import Learner, Scorer

#: Called between batches; may raise to end the hop (an interrupt).
Check = Callable[[], None]
Item = TypeVar("Item")
#: Rows whose outputs wait until their metric is taken together.
SCORED_ROWS = 4096


@dataclass
class Tally:
    """Sums of one config over the rows of a pass."""

    rows: int = 0
    loss_sum: float = 0.0
    metric_sum: float = 0.0
    #: A loss was NaN or infinite; the config's pass ended there.
    diverged: bool = False
    #: Its share of waiting for rows [s].
    data_seconds: float = 0.0
    #: Its share of the whole pass [s].
    seconds: float = 0.0

    @property
    def loss(self) -> Optional[float]:
        return self.loss_sum / self.rows if self.rows else None

    @property
    def metric(self) -> Optional[float]:
        return self.metric_sum / self.rows if self.rows else None


def train_hop(learner: Learner, batches: Iterable[Batch], check: Check) -> List[Tally]:
    """Train over the batches once; the losses and metrics are those of this very pass.

    A config ends early, with `diverged`, at its first loss that is not finite.
    """
    training = Training(learner, check)
    training.feed(batches)
    return training.end()


class Training:
    """A pass whose batches may come in several portions. Bits and sums do not depend on how they are cut."""

    def __init__(self, learner: Learner, check: Check) -> None:
        self._learner = learner
        self._check = check
        self._pass = _Pass(learner)
        self._mark = learner.mark
        self._paused = time.perf_counter()
        learner.mode(True)

    @property
    def diverged(self) -> bool:
        """No further batch is wanted."""
        return self._pass.diverged

    def feed(self, batches: Iterable[Batch]) -> None:
        """Train over these; the time since the last portion counts as waiting for rows."""
        self._pass.waited += time.perf_counter() - self._paused
        mark = self._mark
        for inputs, target in self._pass.timed(batches):
            mark("rows")
            output, losses = self._learner.step(inputs, target)
            self._pass.count(output, target, losses)
            if self._pass.end_diverged(losses):
                break
            mark("metric")
            self._check()
            mark("look for interrupts")
        mark("rows")
        self._paused = time.perf_counter()

    def end(self) -> List[Tally]:
        """What all portions came to, config by config."""
        tallies = self._pass.end()
        self._learner.end([tally.rows for tally in tallies])
        self._mark("metric")
        return tallies


def evaluate(scorer: Scorer, batches: Iterable[Batch], check: Check) -> List[Tally]:
    """Loss and metric of each config over the batches, without changing it; its mode is put back."""
    going, before = _Pass(scorer), scorer.training
    scorer.mode(False)
    with torch.no_grad():
        for inputs, target in going.timed(batches):
            scorer.mark("validation rows")
            output, losses = scorer.score(inputs, target)
            going.count(output, target, losses)
            check()
            scorer.mark("validation")
    scorer.mode(before)
    tallies = going.end()
    scorer.mark("validation")
    return tallies


class _Pass:
    """The sums of a pass, and its time."""

    def __init__(self, scorer: Scorer) -> None:
        self._tallies = [Tally() for _ in range(scorer.width)]
        self._scores = _Scores(self._tallies, scorer.metric)
        self._started = time.perf_counter()
        self.waited = 0.0
        #: Every config has diverged.
        self.diverged = False

    def count(self, output: Tensor, target: Tensor, losses: Sequence[float]) -> None:
        """The outputs [width, rows, ...] and mean losses of a batch, for every config that has not ended."""
        rows = int(target.shape[0])
        for tally, value in zip(self._tallies, losses):
            if not tally.diverged:
                tally.rows += rows
                tally.loss_sum += value * rows
        self._scores.add(output, target)

    def end_diverged(self, losses: Sequence[float]) -> bool:
        """End configs whose loss is not finite; whether all have ended."""
        lost = [tally for tally, value in zip(self._tallies, losses) if not math.isfinite(value)]
        if not lost:
            return False
        self._scores.finish()
        for tally in lost:
            tally.diverged = True
        self.diverged = all(tally.diverged for tally in self._tallies)
        return self.diverged

    def timed(self, items: Iterable[Item]) -> Iterator[Item]:
        """The items, with the time spent waiting for them added up."""
        iterator = iter(items)
        while True:
            started = time.perf_counter()
            item = next(iterator, None)
            self.waited += time.perf_counter() - started
            if item is None:
                return
            yield item

    def end(self) -> List[Tally]:
        self._scores.finish()
        seconds, width = time.perf_counter() - self._started, len(self._tallies)
        for tally in self._tallies:
            tally.seconds, tally.data_seconds = seconds / width, self.waited / width
        return self._tallies


class _Scores:
    """Sums the metric over many batches at a time: a small batch's metric costs more in calls than in work.

    Outputs and targets are copied side by side. Kept as they are, they would lie between the large blocks
    that every batch frees, which the allocator then cannot use again: a CNN took 4 % longer.
    """

    def __init__(self, tallies: Sequence[Tally], metric: Optional[Callable[[Tensor, Tensor], Tensor]]) -> None:
        self._tallies = tallies
        self._metric = metric
        self._kept: Optional[Tuple[Tensor, Tensor]] = None
        self._rows = 0

    def add(self, output: Tensor, target: Tensor) -> None:
        """Outputs [width, rows, ...] and the target [rows, ...] that they share."""
        if self._metric is None:
            return
        rows = int(target.shape[0])
        if self._kept is None or self._rows + rows > len(self._kept[1]):
            self.finish()
            self._kept = self._room(output, target, max(rows, SCORED_ROWS))
        outputs, targets = self._kept
        outputs[:, self._rows : self._rows + rows] = output
        targets[self._rows : self._rows + rows] = target
        self._rows += rows

    def finish(self) -> None:
        if self._metric is None or self._kept is None or not self._rows:
            return
        outputs, targets = self._kept
        for tally, own in zip(self._tallies, outputs):
            if tally.diverged:
                continue
            tally.metric_sum += self._metric(own[: self._rows], targets[: self._rows]).item()
        self._rows = 0

    @staticmethod
    def _room(output: Tensor, target: Tensor, rows: int) -> Tuple[Tensor, Tensor]:
        outputs = torch.empty((output.shape[0], rows, *output.shape[2:]), dtype=output.dtype)
        return outputs, torch.empty((rows, *target.shape[1:]), dtype=target.dtype)
