"""Which configs to train as one: those that may be, in groups as wide as a probe of a few batches finds worth it.

A group is one job of the schedule, so wide groups leave segments idle: with seconds t(g) of a visit of group g and p
segments, an epoch takes at least max(sum of t(g), p x longest t(g)). Groups are cut for that.
"""

from __future__ import annotations

import json
import math
import time
from functools import partial
from typing import Callable, Dict, List, NamedTuple, Sequence, Tuple

import torch
from torch import Tensor

from cerebro_db.architecture import Architecture
from cerebro_db.layout import Input, Layout
from cerebro_db.learners import Alone, Learner, Stack
from cerebro_db.plan import ConfigPlan, Groups, Plan
from cerebro_db.stacked import UnstackableError
from cerebro_db.state import Trainee
from cerebro_db.trainer import Registry, goal_of, new_trainee

#: Kinds of architectures whose layers may all be computed for several configs at once; `stacked` has the last word.
KINDS = ("mlp", "tabular", "sequential")
#: Optimizer arguments that configs of one group may have each for itself: numbers of a fused kernel.
_OWN = ("lr", "betas", "eps", "weight_decay", "momentum", "dampening")
#: Most configs of a group: more gain nothing, and take memory.
WIDEST = 16
#: Several as one must be this much faster than one after the other, or it is not worth other bits.
GAIN = 1.1
#: Weights, gradients and what an optimizer keeps of a group [bytes]: beyond a processor's caches a stack gains nothing.
STACK_BYTES = 16_000_000
#: A probe of one width: so many batches at most, and no further one after so long [s].
PROBE_BATCHES, PROBE_SECONDS = 8, 0.1

#: (number of a set, width) -> seconds that a row takes so many of its configs as one.
Seconds = Callable[[int, int], float]


class _Shape(NamedTuple):
    """What configs must have in common to be trained as one."""

    architecture: str
    loss: str
    metric: str
    optimizer: str
    batch_size: int
    passes: int


def groups(plan: Plan, allowed: Registry) -> Groups:
    """The groups of a plan, none smaller than two; probes on this machine unless told not to."""
    if plan.options.fuse == "off":
        return ()
    sets = [keys for keys in fusible(plan) if len(keys) > 1 and _stackable(plan, keys[:2], allowed)]
    if not sets:
        return ()
    alone = len(plan.configs) - sum(map(len, sets))
    if plan.options.fuse == "always":
        widths = [min(len(keys), WIDEST) for keys in sets]
        return _named(sets, spread(sets, widths, lambda number, width: 1.0 + 0.1 * width, alone, len(plan.segments)))
    seconds = Probe(plan, sets, allowed)
    widths = [best_width(min(len(keys), WIDEST), partial(seconds, number)) for number, keys in enumerate(sets)]
    return _named(sets, spread(sets, widths, seconds, alone, len(plan.segments)))


def fusible(plan: Plan) -> List[Tuple[int, ...]]:
    """Sets of configs alike in all that one pass must share; in order of their first."""
    sets: Dict[_Shape, List[int]] = {}
    for config in plan.configs:
        if Architecture.parse(config.model_arch).kind in KINDS:
            sets.setdefault(_shape(config), []).append(config.mst_key)
    return [tuple(keys) for keys in sets.values()]


def best_width(configs: int, seconds: Callable[[int], float]) -> int:
    """How many of a set to train as one, of its size and its halves; 1 unless that is faster by GAIN."""
    widths = [configs]
    while widths[-1] > 1:
        widths.append(math.ceil(widths[-1] / 2))
    speeds = {width: width / seconds(width) for width in widths}
    best = max(widths, key=lambda width: speeds[width])
    return best if speeds[best] >= GAIN * speeds[1] else 1


def spread(
    sets: Sequence[Sequence[int]], widths: Sequence[int], seconds: Seconds, alone: int, segments: int
) -> List[List[int]]:
    """Sizes of the groups of each set: at most `widths`, and so many groups that no segment waits.

    `alone`: configs of no set, which are jobs too; each counts as the mean config.
    """
    parts = [math.ceil(len(keys) / width) for keys, width in zip(sets, widths)]
    best, least = list(parts), (segments, math.inf)
    while True:
        cut = [_sizes(len(keys), count) for keys, count in zip(sets, parts)]
        times = [[seconds(number, size) for size in sizes] for number, sizes in enumerate(cut)]
        jobs = [t for each in times for t in each]
        jobs += [sum(jobs) / sum(map(len, sets))] * alone
        cost = max(0, segments - len(jobs)), max(sum(jobs), segments * max(jobs))
        if cost < least:
            best, least = list(parts), cost
        cuttable = [number for number, keys in enumerate(sets) if parts[number] < len(keys)]
        busy = not cost[0] and segments * max(jobs) <= sum(jobs)  # no segment waits: cutting more only adds work
        if busy or not cuttable:
            return [_sizes(len(keys), count) for keys, count in zip(sets, best)]
        parts[max(cuttable, key=lambda number: max(times[number]))] += 1


def _sizes(count: int, parts: int) -> List[int]:
    """`count` in so many parts, as even as can be."""
    return [count // parts + (number < count % parts) for number in range(parts)]


def _named(sets: Sequence[Tuple[int, ...]], sizes: Sequence[Sequence[int]]) -> Groups:
    found = []
    for keys, widths in zip(sets, sizes):
        for width in widths:
            found.append(keys[:width])
            keys = keys[width:]
    return tuple(group for group in found if len(group) > 1)


def _shape(config: ConfigPlan) -> _Shape:
    compiled, fit = config.compiled, config.fit
    given = dict(compiled.optimizer_args)
    common = {name: value for name, value in given.items() if name not in _OWN}
    moving = bool(given.get("momentum"))
    return _Shape(
        json.dumps(json.loads(config.model_arch), sort_keys=True), compiled.loss, str(compiled.metric),
        f"{compiled.optimizer} {sorted(common.items())} {moving}", fit.batch_size, fit.epochs,
    )  # fmt: skip


def _stackable(plan: Plan, keys: Sequence[int], allowed: Registry) -> bool:
    """Whether two of a set can be stacked, and fit."""
    trainees = _trainees(plan, keys, allowed)
    if _bytes(trainees[0]) * len(keys) > STACK_BYTES:
        return False
    try:
        stack = _stack(plan, keys, trainees)
        stack.mode(False)
        with torch.no_grad():
            stack.score(*made_batch(plan.layout, rows=2))
    except UnstackableError:
        return False
    return True


class Probe:
    """Measured seconds of a batch, by set and width; each is measured once."""

    def __init__(self, plan: Plan, sets: Sequence[Sequence[int]], allowed: Registry) -> None:
        self._plan = plan
        self._sets = sets
        self._allowed = allowed
        self._known: Dict[Tuple[int, int], float] = {}

    def __call__(self, number: int, width: int) -> float:
        if (number, width) not in self._known:
            self._known[number, width] = self._measured(self._sets[number][:width])
        return self._known[number, width]

    def _measured(self, keys: Sequence[int]) -> float:
        """The shortest of a few batches, by row; infinite for a stack that is too large."""
        plan = self._plan
        trainees = _trainees(plan, keys[:1], self._allowed)
        if _bytes(trainees[0]) * len(keys) > STACK_BYTES and len(keys) > 1:
            return math.inf
        trainees += _trainees(plan, keys[1:], self._allowed)
        learner = _stack(plan, keys, trainees) if len(keys) > 1 else Alone(trainees[0], goal_of(plan.config(keys[0])))
        rows = plan.config(keys[0]).fit.batch_size
        inputs, target = made_batch(plan.layout, rows)
        learner.step(inputs, target)  # the first takes memory
        return _shortest(learner, inputs, target) / rows


def _shortest(learner: Learner, inputs: Tuple[Tensor, ...], target: Tensor) -> float:
    shortest, until = math.inf, time.perf_counter() + PROBE_SECONDS
    for _ in range(PROBE_BATCHES):
        started = time.perf_counter()
        learner.step(inputs, target)
        ended = time.perf_counter()
        shortest = min(shortest, ended - started)
        if ended > until:
            break
    return shortest


def made_batch(layout: Layout, rows: int) -> Tuple[Tuple[Tensor, ...], Tensor]:
    """Rows as a packed table of this layout gives them, of numbers that cost what others do."""
    target = layout.target
    kind = torch.int64 if target.kind == "class" else torch.float32
    return tuple(_made(item, rows) for item in layout.inputs), torch.zeros((rows, *target.shape), dtype=kind)


def _made(item: Input, rows: int) -> Tensor:
    if item.kind == "categorical":
        return torch.zeros((rows, *item.shape), dtype=torch.int64)
    return torch.linspace(-1.0, 1.0, rows * math.prod(item.shape)).reshape(rows, *item.shape)


def _trainees(plan: Plan, keys: Sequence[int], allowed: Registry) -> List[Trainee]:
    return [new_trainee(plan.config(key), plan, allowed) for key in keys]


def _stack(plan: Plan, keys: Sequence[int], trainees: Sequence[Trainee]) -> Stack:
    goals = [goal_of(plan.config(key)) for key in keys]
    stack = Stack(len(keys), trainees[0], goals[0])
    for trainee, goal in zip(trainees, goals):
        stack.add(trainee, goal, torch.get_rng_state())
    return stack


def _bytes(trainee: Trainee) -> int:
    """Weights, gradients and two more of each."""
    return 4 * sum(parameter.numel() * parameter.element_size() for parameter in trainee.module.parameters())
