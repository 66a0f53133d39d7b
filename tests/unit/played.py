"""A run played on paper: hops of made-up lengths on an ideal cluster, for tests of the schedule."""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, replace
from typing import Callable, Dict, List, Sequence, Tuple

from cerebro_db.hopper import ConfigAdded, Event, Hop, HopFinished, SegmentUp, StartHop, State, step


@dataclass(frozen=True)
class Instance:
    """What every hop takes: its config's seconds times its segment's pace, more or less by `noise`."""

    seconds: Sequence[float]
    paces: Sequence[float]
    epochs: int = 2
    #: A hop takes its time times 1 - noise to 1 + noise.
    noise: float = 0.0
    seed: int = 0

    def length(self, epoch: int, config: int, segment: int) -> float:
        chance = random.Random(f"{self.seed} {epoch} {config} {segment}").uniform(-1, 1)
        return self.seconds[config] * self.paces[segment] * (1 + self.noise * chance)

    def bound(self) -> float:
        """The busiest segment's or the longest config's seconds."""
        segments, configs = [0.0] * len(self.paces), [0.0] * len(self.seconds)
        for epoch in range(1, self.epochs + 1):
            for config in range(len(configs)):
                for segment in range(len(segments)):
                    length = self.length(epoch, config, segment)
                    segments[segment] += length
                    configs[config] += length
        return max(segments + configs)


def uniform(configs: int, segments: int, **more: float) -> Instance:
    return replace(Instance([1.0] * configs, [1.0] * segments), **more)


def mixed(configs: int, segments: int, seed: int = 0, **more: float) -> Instance:
    """A fifth of the configs takes eight times as long."""
    slow = random.Random(seed).sample(range(configs), max(1, round(configs / 5)))
    seconds = [8.0 if config in slow else 1.0 for config in range(configs)]
    return replace(Instance(seconds, [1.0] * segments, seed=seed), **more)


def one_slow_segment(configs: int, segments: int, seed: int = 0, **more: float) -> Instance:
    paces = [2.0 if segment == seed % segments else 1.0 for segment in range(segments)]
    return replace(Instance([1.0] * configs, paces, seed=seed), **more)


def makespan(
    instance: Instance, started: Callable[[StartHop], object] = lambda start: None, **settings: object
) -> float:
    """How long the run takes under these settings of the schedule's state."""
    count = len(instance.paces)
    state, now = State(tuple(range(count)), **settings), 0.0
    ends: List[Tuple[float, Hop, StartHop, float]] = []
    events: List[Event] = [ConfigAdded(config, instance.epochs) for config in range(len(instance.seconds))]
    events += [SegmentUp(segment) for segment in range(count)]
    while events:
        state, instructions = step(state, *events)
        for start in instructions:
            if isinstance(start, StartHop):
                started(start)
                hop = start.hop
                length = instance.length(hop.epoch, hop.config, hop.segment)
                heapq.heappush(ends, (now + length, hop, start, length))
        events = []
        if ends:
            now, _, start, length = heapq.heappop(ends)
            events = [HopFinished(hop, length) for hop in start.hops]
    assert state.finished
    return now


def ratio(instance: Instance, **settings: object) -> float:
    """The makespan over its lower bound."""
    return makespan(instance, **settings) / instance.bound()


def mean_and_worst(ratios: Dict[int, float]) -> Tuple[float, float]:
    return sum(ratios.values()) / len(ratios), max(ratios.values())
