"""One segment's worker: it keeps the segment's rows and trains every config that hops by.

The same in every strategy that reads rows where it trains, in a backend or in a process of its own; what differs
is where they come from, a `batches.Source`. State and event of a hop are written in one transaction of the
database that is passed in.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, Iterator, Mapping, Optional, Sequence, Tuple

import torch
from torch import nn

from cerebro_db import architecture, factories, fusion, objective, weights
from cerebro_db.architecture import Architecture
from cerebro_db.batches import Source
from cerebro_db.catalog import Catalog
from cerebro_db.database import Database, together
from cerebro_db.errors import UsageError
from cerebro_db.params import CompileParams
from cerebro_db.plan import ConfigPlan, Groups, Plan
from cerebro_db.sqltext import TableName
from cerebro_db.state_store import StateStore
from cerebro_db.train import Check
from cerebro_db.trainer import Registry, Sources, Trainer, Visiting, new_trainee
from cerebro_db.visits import Place, Taken, Visit, Visited

#: A bytea value ends at 1 GB; the weights of a model are one value of the output table [bytes].
LARGEST_WEIGHTS = 1_000_000_000
#: Opens the rows of a packed table: those of one segment by its dist_key, or all for None.
OpenSource = Callable[[TableName, Optional[int]], Source]


class SegmentWorker:
    """Keeps a segment's rows between hops. Used from one thread."""

    def __init__(self, database: Database, place: Place, open_source: OpenSource, check: Check) -> None:
        self._database = database
        self._segment_id = place.segment_id
        plan = place.plan
        Catalog(database, place.run_id).join()
        self._states = StateStore(database, place.run_id)
        allowed = factories.registry(database, (config.model_arch for config in plan.configs))
        validation = open_source(plan.validation, None) if plan.validation is not None else None
        sources = Sources(open_source(plan.packed, place.dist_key), validation)
        self._trainer = Trainer(plan, place.segment_id, sources, allowed, check)
        self._trainer.rows.warm()
        #: Configs whose last hop of an epoch was here -> that epoch.
        self._ended: Dict[int, int] = {}

    def hop(self, mst_keys: Sequence[int], epoch: int, last: bool) -> Dict[str, Any]:
        """Train a config, or several as one, over this segment; write their new states and the events."""
        started = time.perf_counter()
        trainer, mark = self._trainer, self._trainer.mark
        if trainer.phases is not None:
            trainer.phases.start()
        visit = Visit(tuple(mst_keys), epoch, last)
        visiting = trainer.begin(visit, self._loaded(visit))
        moved = time.perf_counter() - started - visiting.build_seconds
        visiting.feed(trainer.batches(visit))
        visited = visiting.end()
        ended = time.perf_counter()
        with together(self._database):
            sizes = [self._saved(visiting, number, each) for number, each in enumerate(visited)]
            now = time.perf_counter()
            taken = Taken(now - started, moved + now - ended)
            told = self._states.record(self._segment_id, visit, visited, taken, sizes)
            mark("record")
            if trainer.phases is not None:
                self._states.profile(self._segment_id, visit, trainer.phases.spent(len(visited)))
        if last:  # committed, and nobody has the configs since
            self._ended.update(dict.fromkeys(set(mst_keys) - set(told["diverged"]), epoch))
        return told

    def _loaded(self, visit: Visit) -> Iterator[Optional[Dict[str, bytes]]]:
        """The states of a visit's configs, one after the other."""
        for mst_key in visit.mst_keys:
            state = self._state(mst_key, visit.epoch)
            self._trainer.mark("load state")
            yield state
            del state  # as large as the model

    def _state(self, mst_key: int, epoch: int) -> Optional[Dict[str, bytes]]:
        """A config's stored state; None where it stays, and is in memory as its last hop of all has left it."""
        stays = self._ended.pop(mst_key, None) == epoch - 1 and self._trainer.holds(mst_key)
        return None if stays and self._states.untouched(mst_key, epoch) else self._states.load(mst_key)

    def _saved(self, visiting: Visiting, number: int, visited: Visited) -> int:
        """Write one config's new state; its bytes."""
        blobs = visiting.dump(number)
        self._trainer.mark("dump state")
        if not visited.diverged:  # the last finite state stays
            self._states.save(visiting.visit.mst_keys[number], blobs.chunks())
        self._trainer.mark("save state")
        return blobs.size


def check_plan(database: Database, plan: Plan, initial: Mapping[str, weights.Shapes]) -> Groups:
    """Build every kind of config once and push two rows through; raises UsageError for the first misfit.

    Gives the configs to train as one. `initial`: mst_key as text -> shapes of the weights that the config starts from.
    """
    torch.set_num_threads(plan.threads)
    allowed = factories.registry(database, (config.model_arch for config in plan.configs))
    known: Dict[Tuple[str, str], weights.Shapes] = {}
    for config in plan.configs:
        compiled = config.compiled
        objective.check_target(compiled.loss, compiled.metric, plan.layout.target)
        alike = config.model_arch, compiled.loss
        if alike not in known:
            known[alike] = _checked(config, plan, allowed)
        else:
            _check_arguments(compiled)
        given = initial.get(str(config.mst_key))
        if given is not None:
            weights.require_fit(given, known[alike], f"the weights that mst_key {config.mst_key} starts from")
    return fusion.groups(plan, allowed)


def _checked(config: ConfigPlan, plan: Plan, allowed: Registry) -> weights.Shapes:
    """Build a config; the shapes of its weights."""
    architecture.check(Architecture.parse(config.model_arch), plan.layout, config.compiled.loss, allowed)
    state = new_trainee(config, plan, allowed).module.state_dict()
    size = sum(tensor.numel() * tensor.element_size() for tensor in state.values())
    if size > LARGEST_WEIGHTS:
        raise UsageError(
            f"mst_key {config.mst_key}: the model's weights take {size} bytes, but the output table holds at most "
            f"{LARGEST_WEIGHTS} in one value; take a smaller model"
        )
    return {name: list(tensor.shape) for name, tensor in state.items()}


def _check_arguments(compiled: CompileParams) -> None:
    """Let torch look at the arguments of an optimizer and its schedule."""
    objective.schedule(compiled, objective.optimizer(compiled, [nn.Parameter(torch.zeros(1))]))
