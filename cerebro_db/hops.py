"""One segment's worker: it keeps the segment's rows and trains every config that hops by.

The same in every strategy, in a backend or in a process of its own; what differs is where the rows come
from, a `batches.Source`. State and event of a hop are written in one transaction of the
database that is passed in.
"""

from __future__ import annotations

import gc
import itertools
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, Mapping, Optional, Tuple

import torch

from cerebro_db import architecture, factories, objective, weights
from cerebro_db.batches import Batch, SegmentRows, Source
from cerebro_db.catalog import Catalog
from cerebro_db.database import Database, together
from cerebro_db.errors import UsageError
from cerebro_db.plan import ConfigPlan, Plan
from cerebro_db.sqltext import TableName, query
from cerebro_db.state import Blobs, Trainee, load_weights
from cerebro_db.state_store import StateStore
from cerebro_db.train import Check, Objective, Tally, evaluate, train_hop

_MB = 1_000_000
#: A bytea value ends at 1 GB; the weights of a model are one value of the output table [bytes].
LARGEST_WEIGHTS = 1_000_000_000
#: Opens the rows of a packed table: those of one segment by its dist_key, or all for None.
OpenSource = Callable[[TableName, Optional[int]], Source]
#: Listed factories by name.
Registry = Mapping[str, Callable[..., Any]]


def warm_up() -> None:
    """Pay for torch's first uses now. Call with signals blocked where threads may not see them."""
    torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1).step()
    gc.collect()
    gc.freeze()  # torch's own objects stay: looking through them again costs a tenth of a short hop


@dataclass
class HopTimes:
    """Where a hop's seconds went, besides training and validation."""

    started: float
    state_in: float = 0.0
    build: float = 0.0


@dataclass(frozen=True)
class Place:
    """Where a worker works: a segment of a run."""

    run_id: int
    plan: Plan
    segment_id: int


class SegmentWorker:
    """Keeps a segment's rows between hops. Used from one thread."""

    def __init__(self, database: Database, place: Place, open_source: OpenSource, check: Check) -> None:
        self._database = database
        self._check = check
        self._run_id = place.run_id
        self._plan = plan = place.plan
        self._segment = next(s for s in plan.segments if s.segment_id == place.segment_id)
        Catalog(database, place.run_id).join()
        self._states = StateStore(database, place.run_id)
        torch.set_num_threads(plan.threads)
        self._allowed = factories.registry(database, (config.model_arch for config in plan.configs))
        budget = plan.options.cache_mb * _MB
        self._rows = self._kept(open_source(plan.packed, self._segment.dist_key), budget)
        self._rows.warm()
        self._validation: Optional[SegmentRows] = None
        if plan.validation is not None:
            left = max(0, budget - self._rows.cached_bytes)
            self._validation = self._kept(open_source(plan.validation, None), left)
        taken = sum(rows.cached_bytes for rows in (self._rows, self._validation) if rows is not None)
        self._built = Built(max(0, budget - taken))

    def hop(self, mst_key: int, epoch: int, last: bool) -> Dict[str, Any]:
        """Train one config over this segment and write its new state and the event."""
        times = HopTimes(time.perf_counter())
        config = self._plan.config(mst_key)
        trainee = self._trainee(config, times)
        goal = goal_of(config)
        tally = train_hop(trainee, self._batches(config, epoch), goal, self._check)
        validation = None
        if last and not tally.diverged:
            if trainee.schedule is not None:
                trainee.schedule.step()
            if self._validation is not None and self._plan.validates(epoch):
                batches = self._validation.in_order(self._plan.options.evaluation_batch)
                validation = evaluate(trainee.module, batches, goal, self._check)
        return self._save(trainee, Hopped(mst_key, epoch, tally, validation, goal.metric is not None), times)

    def _kept(self, source: Source, cache_bytes: int) -> SegmentRows:
        if not getattr(source, "keeps_rows", True):  # a source that promises flat memory
            cache_bytes = 0
        return SegmentRows(source, self._plan.layout, cache_bytes, self._plan.options.window_mb * _MB)

    def _batches(self, config: ConfigPlan, epoch: int) -> Iterator[Batch]:
        fit = config.fit
        seed, segment = self._plan.options.seed, self._segment.segment_id
        passes = range((epoch - 1) * fit.epochs + 1, epoch * fit.epochs + 1)
        return itertools.chain.from_iterable(
            self._rows.epoch((seed, number, segment), fit.batch_size) for number in passes
        )

    def _trainee(self, config: ConfigPlan, times: HopTimes) -> Trainee:
        parts = self._states.load(config.mst_key)
        times.state_in = time.perf_counter() - times.started
        started = time.perf_counter()
        trainee = self._built.take(config.mst_key) if "weights" in parts else None
        trainee = trainee or new_trainee(config, self._plan, self._allowed)
        if "weights" in parts:
            trainee.load(Blobs(parts["weights"], parts["rest"]))
        elif "initial" in parts:
            load_weights(trainee.module, parts["initial"])
        times.build = time.perf_counter() - started
        return trainee

    def _save(self, trainee: Trainee, hopped: Hopped, times: HopTimes) -> Dict[str, Any]:
        started = time.perf_counter()
        blobs = trainee.dump()
        keys = {"run_id": self._run_id, "mst_key": hopped.mst_key}
        with together(self._database):
            if not hopped.tally.diverged:  # the last finite state stays
                self._states.save(hopped.mst_key, blobs)
            moved = times.state_in + time.perf_counter() - started
            values = hopped.values(times, moved, blobs.size)
            self._database.rows(query("catalog", "save_hop"), segment_id=self._segment.segment_id, **keys, **values)
        if not own_code(self._plan.config(hopped.mst_key)):
            self._built.keep(hopped.mst_key, trainee, blobs.size)
        return {"seconds": values["seconds"], "rows": hopped.tally.rows, "diverged": hopped.tally.diverged}


class Built:
    """Modules and optimizers kept for the next visit of their configs, which then only loads its state into them."""

    def __init__(self, budget: int) -> None:
        self._room = budget
        self._kept: Dict[int, Tuple[Trainee, int]] = {}

    def take(self, mst_key: int) -> Optional[Trainee]:
        """The config's objects as it left them, out of what is kept; None when there are none."""
        trainee, size = self._kept.pop(mst_key, (None, 0))
        self._room += size
        return trainee

    def keep(self, mst_key: int, trainee: Trainee, size: int) -> None:
        """Keep them if `size`, the bytes of the state, has room."""
        if size <= self._room:
            trainee.optimizer.zero_grad()  # gradients are of no use any more
            self._room -= size
            self._kept[mst_key] = trainee, size


def own_code(config: ConfigPlan) -> bool:
    """Whether the module is code of the user's, which may hold more than its state: it is made anew in every hop."""
    return architecture.Architecture.parse(config.model_arch).kind == "factory"


@dataclass(frozen=True)
class Hopped:
    """The result of a hop."""

    mst_key: int
    epoch: int
    tally: Tally
    validation: Optional[Tally]
    has_metric: bool

    def values(self, times: HopTimes, moved: float, state_bytes: int) -> Dict[str, Any]:
        """The values of catalog query `save_hop`; the five parts add up to `seconds`."""
        seconds = time.perf_counter() - times.started
        checked = self.validation or Tally()
        data = self.tally.data_seconds + checked.data_seconds
        train = self.tally.seconds - self.tally.data_seconds
        validate = checked.seconds - checked.data_seconds
        return {
            "epoch": self.epoch,
            "row_count": self.tally.rows,
            "loss": self.tally.loss,
            "metric": self.tally.metric if self.has_metric else None,
            "validation_rows": checked.rows if self.validation else None,
            "validation_loss": checked.loss,
            "validation_metric": checked.metric if self.has_metric else None,
            "train_seconds": train,
            "validate_seconds": validate,
            "data_seconds": data,
            "hop_seconds": moved,
            "start_seconds": max(0.0, seconds - train - validate - data - moved),
            "state_bytes": state_bytes,
            "seconds": seconds,
        }


def new_trainee(config: ConfigPlan, plan: Plan, allowed: Registry) -> Trainee:
    """A config before its first hop: weights from its own seed, (run's seed, mst_key)."""
    torch.manual_seed(config_seed(plan.options.seed, config.mst_key))
    compiled = config.compiled
    module = architecture.build(
        architecture.Architecture.parse(config.model_arch), plan.layout, compiled.loss, allowed
    )
    optimizer = objective.optimizer(compiled, module.parameters())
    return Trainee(module, optimizer, objective.schedule(compiled, optimizer))


def config_seed(seed: int, mst_key: int) -> int:
    """Seed of a config's initial weights and dropout; distinct for every (seed, mst_key)."""
    return (seed << 32) + mst_key


def goal_of(config: ConfigPlan) -> Objective:
    compiled = config.compiled
    metric = objective.metric_sum(compiled.metric) if compiled.metric else None
    return Objective(objective.loss_function(compiled.loss), metric, compiled.clip_norm)


def check_plan(database: Database, plan: Plan, initial: Mapping[str, weights.Shapes]) -> None:
    """Build every config once and push two rows through; raises UsageError for the first misfit.

    `initial`: mst_key as text -> shapes of the weights that the config starts from.
    """
    torch.set_num_threads(plan.threads)
    allowed = factories.registry(database, (config.model_arch for config in plan.configs))
    seen: Dict[str, int] = {}
    for config in plan.configs:
        given = initial.get(str(config.mst_key))
        same = seen.setdefault(config.model_arch + config.compile_params, config.mst_key)
        if same == config.mst_key or given is not None:
            _check_config(config, plan, allowed)
            if given is not None:
                _check_initial(config, plan, allowed, given)


def _check_config(config: ConfigPlan, plan: Plan, allowed: Registry) -> None:
    compiled = config.compiled
    objective.check_target(compiled.loss, compiled.metric, plan.layout.target)
    parsed = architecture.Architecture.parse(config.model_arch)
    architecture.check(parsed, plan.layout, compiled.loss, allowed)
    state = new_trainee(config, plan, allowed).module.state_dict()
    size = sum(tensor.numel() * tensor.element_size() for tensor in state.values())
    if size > LARGEST_WEIGHTS:
        raise UsageError(
            f"mst_key {config.mst_key}: the model's weights take {size} bytes, but the output table holds at most "
            f"{LARGEST_WEIGHTS} in one value; take a smaller model"
        )


def _check_initial(config: ConfigPlan, plan: Plan, allowed: Registry, given: weights.Shapes) -> None:
    state = new_trainee(config, plan, allowed).module.state_dict()
    wanted = {name: list(tensor.shape) for name, tensor in state.items()}
    weights.require_fit(given, wanted, f"the weights that mst_key {config.mst_key} starts from")
