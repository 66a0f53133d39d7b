"""What a visit to a segment computes, without a database: rows and modules are kept, states come and go as bytes.

The same wherever a segment's rows are: in a session that reads them, in a worker process, or in the process of
a segment that is handed them. A visit is begun with the config's state, fed once or in portions, and ended.
"""

from __future__ import annotations

import gc
import itertools
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from cerebro_db import architecture, objective
from cerebro_db.batches import Batch, SegmentRows, Source
from cerebro_db.learners import Alone, Learner, Objective, Stack
from cerebro_db.phases import Phases, unmarked
from cerebro_db.plan import ConfigPlan, Plan
from cerebro_db.state import Blobs, Trainee, load_weights
from cerebro_db.train import Check, Tally, Training, evaluate
from cerebro_db.visits import Visit, Visited

#: Listed factories by name.
Registry = Mapping[str, Callable[..., Any]]


def warm_up() -> None:
    """Pay for torch's first uses now. Call with signals blocked where threads may not see them."""
    torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1).step()
    gc.collect()
    gc.freeze()  # torch's own objects stay: looking through them again costs a tenth of a short hop


class Pass(NamedTuple):
    """One of the passes of a visit over the rows, by `batches.window_plan`."""

    key: Tuple[int, int, int]
    batch_rows: int


@dataclass(frozen=True)
class Sources:
    """Where a segment's rows come from, and those to validate on."""

    rows: Source
    validation: Optional[Source]


class Trainer:
    """One segment's rows, and the modules of the configs that hop by. Used from one thread."""

    def __init__(self, plan: Plan, segment_id: int, sources: Sources, allowed: Registry, check: Check) -> None:
        torch.set_num_threads(plan.threads)
        self.plan = plan
        self.check = check
        #: The clock of the visit that goes on; None unless it was asked for.
        self.phases = Phases() if plan.options.profile else None
        self.mark = self.phases.mark if self.phases else unmarked
        self._segment_id = segment_id
        self._allowed = allowed
        budget = plan.options.cache_bytes
        self.rows = self._kept(sources.rows, budget)
        self.validation: Optional[SegmentRows] = None
        if sources.validation is not None:
            left = max(0, budget - self.rows.cached_bytes)
            self.validation = self._kept(sources.validation, left)
        taken = sum(rows.cached_bytes for rows in (self.rows, self.validation) if rows is not None)
        self._built = Built(max(0, budget - taken))

    def passes(self, visit: Visit) -> List[Pass]:
        """The passes over the rows that a visit makes."""
        fit = self.plan.config(visit.mst_keys[0]).fit
        numbers = range((visit.epoch - 1) * fit.epochs + 1, visit.epoch * fit.epochs + 1)
        return [Pass((self.plan.options.seed, number, self._segment_id), fit.batch_size) for number in numbers]

    def batches(self, visit: Visit) -> Iterator[Batch]:
        """All that a visit trains on, from rows that are kept or read."""
        return itertools.chain.from_iterable(self.rows.epoch(key, rows) for key, rows in self.passes(visit))

    def begin(self, visit: Visit, states: Iterable[Optional[Mapping[str, bytes]]]) -> Visiting:
        """Begin a visit with the parts of each config's state: weights and rest, or initial, or none.

        None in place of the parts: the config is as its last visit here has left it, which `holds` says. States may
        be loaded as they are asked for, which does not count as building: one of them is in memory at a time.
        """
        visiting = Visiting(self, visit)
        for key, state in zip(visit.mst_keys, states):
            started = time.perf_counter()
            visiting.add(self._member(self.plan.config(key), state))
            del state
            visiting.build_seconds += time.perf_counter() - started
            self.mark("build")
        return visiting

    def holds(self, mst_key: int) -> bool:
        """Whether what the config's last visit here has left is kept."""
        return self._built.holds(mst_key)

    def _member(self, config: ConfigPlan, state: Optional[Mapping[str, bytes]]) -> Member:
        kept = self._built.take(config.mst_key)
        if state is None:
            assert kept is not None
            torch.set_rng_state(kept.rng_state)
            return kept
        trainee = kept.trainee if kept and "weights" in state else new_trainee(config, self.plan, self._allowed)
        if "weights" in state:
            trainee.load(Blobs(state["weights"], state["rest"]))
        elif "initial" in state:
            load_weights(trainee.module, state["initial"])
        return Member(trainee, torch.get_rng_state())

    def keep(self, visit: Visit, mst_key: int, member: Member, blobs: Blobs) -> None:
        """Keep what a visit leaves for the config's next one here.

        After the last visit of an epoch nothing need be loaded before it; after another one the optimizer's state will.
        """
        optimizer, size = member.trainee.optimizer, blobs.size
        optimizer.zero_grad()  # gradients are of no use any more
        if not visit.last:
            optimizer.state.clear()
            size = len(blobs.weights)
        done = visit.last and visit.epoch == self.plan.epochs
        if done or own_code(self.plan.config(mst_key)) or not self._built.keep(mst_key, member, size):
            optimizer.state.clear()  # at once: the rest of a group has not been written yet

    def _kept(self, source: Source, cache_bytes: int) -> SegmentRows:
        if not getattr(source, "keeps_rows", True):  # a source that promises flat memory
            cache_bytes = 0
        return SegmentRows(source, self.plan.layout, cache_bytes, self.plan.options.window_bytes)


class Member(NamedTuple):
    """A config between visits: what is in memory, and its random numbers."""

    trainee: Trainee
    rng_state: Tensor


class Visiting:
    """A visit that goes on."""

    def __init__(self, trainer: Trainer, visit: Visit) -> None:
        self._trainer = trainer
        self.visit = visit
        self._trainees: List[Trainee] = []
        #: Of the whole visit [s].
        self.build_seconds = 0.0

    def add(self, member: Member) -> None:
        """The next config of the visit; training begins with the last one."""
        trainer, width = self._trainer, len(self.visit.mst_keys)
        goal = goal_of(trainer.plan.config(self.visit.mst_keys[len(self._trainees)]))
        if not self._trainees:
            alike = member.trainee, goal, trainer.mark
            self._learner: Learner = Alone(*alike) if width == 1 else Stack(width, *alike)
        if isinstance(self._learner, Stack):
            self._learner.add(member.trainee, goal, member.rng_state)
        self._trainees.append(member.trainee)
        if len(self._trainees) == width:
            self._training = Training(self._learner, trainer.check)

    @property
    def diverged(self) -> bool:
        """No further batch is wanted."""
        return self._training.diverged

    def feed(self, batches: Iterable[Batch]) -> None:
        self._training.feed(batches)

    def end(self) -> List[Visited]:
        """Step the schedules and validate where the epoch ends; what the visit came to, config by config."""
        visit, trainer = self.visit, self._trainer
        tallies = self._training.end()
        if not visit.last or self.diverged:
            return [self._visited(tally, None) for tally in tallies]
        for trainee, tally in zip(self._trainees, tallies):
            if trainee.schedule is not None and not tally.diverged:
                trainee.schedule.step()
        trainer.mark("schedule")
        if trainer.validation is None or not trainer.plan.validates(visit.epoch):
            return [self._visited(tally, None) for tally in tallies]
        batches = trainer.validation.in_order(trainer.plan.options.evaluation_batch)
        return list(map(self._visited, tallies, evaluate(self._learner, batches, trainer.check)))

    def dump(self, number: int) -> Blobs:
        """The state of one of the configs, which is kept for its next visit."""
        self._learner.give_back(number)
        trainee = self._trainees[number]
        blobs = trainee.dump()
        self._trainer.keep(self.visit, self.visit.mst_keys[number], Member(trainee, torch.get_rng_state()), blobs)
        return blobs

    def _visited(self, tally: Tally, validation: Optional[Tally]) -> Visited:
        checked = validation or Tally()
        validated = validation is not None and not tally.diverged
        return Visited(
            row_count=tally.rows,
            loss=tally.loss,
            metric=tally.metric if self._learner.metric is not None else None,
            validation_rows=checked.rows if validated else None,
            validation_loss=checked.loss if validated else None,
            validation_metric=checked.metric if validated and self._learner.metric is not None else None,
            train_seconds=tally.seconds - tally.data_seconds,
            validate_seconds=checked.seconds - checked.data_seconds,
            data_seconds=tally.data_seconds + checked.data_seconds,
            build_seconds=self.build_seconds / len(self._trainees),
            diverged=tally.diverged,
        )


class Built:
    """Modules and optimizers kept for the next visit of their configs, which then only loads its state into them."""

    def __init__(self, budget: int) -> None:
        self._room = budget
        self._kept: Dict[int, Tuple[Member, int]] = {}

    def holds(self, mst_key: int) -> bool:
        return mst_key in self._kept

    def take(self, mst_key: int) -> Optional[Member]:
        """The config's objects as it left them, out of what is kept; None when there are none."""
        member, size = self._kept.pop(mst_key, (None, 0))
        self._room += size
        return member

    def keep(self, mst_key: int, member: Member, size: int) -> bool:
        """Keep them if `size`, the bytes of what they hold, has room; whether it has."""
        if size > self._room:
            return False
        self._room -= size
        self._kept[mst_key] = member, size
        return True


def own_code(config: ConfigPlan) -> bool:
    """Whether the module is code of the user's, which may hold more than its state: it is made anew in every hop."""
    return architecture.Architecture.parse(config.model_arch).kind == "factory"


def new_trainee(config: ConfigPlan, plan: Plan, allowed: Registry) -> Trainee:
    """A config before its first hop: weights from its own seed, (run's seed, mst_key). Its size has been checked."""
    torch.default_generator.manual_seed(config_seed(plan.options.seed, config.mst_key))  # no other device's: it is slow
    compiled = config.compiled
    parsed = architecture.Architecture.parse(config.model_arch)
    module = architecture.build(parsed, plan.layout, compiled.loss, allowed, weigh=False)
    optimizer = objective.optimizer(compiled, module.parameters())
    return Trainee(module, optimizer, objective.schedule(compiled, optimizer))


def config_seed(seed: int, mst_key: int) -> int:
    """Seed of a config's initial weights and dropout; distinct for every (seed, mst_key)."""
    return (seed << 32) + mst_key


def goal_of(config: ConfigPlan) -> Objective:
    compiled = config.compiled
    return Objective.named(compiled.loss, compiled.metric, compiled.clip_norm)
