"""The words of the schedule: hops, what happens to them, what is to be done, and the state it all leads to."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import FrozenSet, Mapping, Tuple, Union


@dataclass(frozen=True, order=True)
class Hop:
    """One visit of a config to one segment's rows, in one epoch (from 1)."""

    epoch: int
    config: int
    segment: int


@dataclass(frozen=True)
class ConfigAdded:
    config: int
    epochs: int


@dataclass(frozen=True)
class ConfigStopped:
    """The config starts no further hop; one that runs may finish."""

    config: int
    reason: str = ""


@dataclass(frozen=True)
class SegmentUp:
    segment: int


@dataclass(frozen=True)
class SegmentDown:
    """The segment's session is lost, and with it the hop that ran there."""

    segment: int
    reason: str = ""


@dataclass(frozen=True)
class HopFinished:
    """The hop's new state is committed. Believed even when the hop was not known to run.

    `seconds` are those of the whole visit: configs that hop together all report the same.
    """

    hop: Hop
    seconds: float = 0.0


@dataclass(frozen=True)
class HopFailed:
    """The hop left no trace; its config is where it was before, and hops alone from now on."""

    hop: Hop
    reason: str = ""


Event = Union[ConfigAdded, ConfigStopped, SegmentUp, SegmentDown, HopFinished, HopFailed]


@dataclass(frozen=True)
class StartHop:
    #: Of a group, the hop of its lowest config.
    hop: Hop
    #: True when the config has visited every other segment in this epoch: validate after it.
    last: bool = False
    #: Configs that make the same visit together with the hop's.
    others: Tuple[int, ...] = ()

    @property
    def hops(self) -> Tuple[Hop, ...]:
        """The hops of all configs of the visit, `hop` first."""
        return (self.hop, *(replace(self.hop, config=config) for config in self.others))


@dataclass(frozen=True)
class EpochDone:
    config: int
    epoch: int


@dataclass(frozen=True)
class ConfigFailed:
    """A hop failed too often; ConfigDone follows."""

    config: int
    reason: str


@dataclass(frozen=True)
class ConfigDone:
    """The config has no hop left; told exactly once."""

    config: int


Instruction = Union[StartHop, EpochDone, ConfigFailed, ConfigDone]


#: Which segment a config visits next.
#: "rotation": the i-th config visits segments i, i + 1, ... in every epoch, whatever the clock says, so the
#: same run gives the same weights again, bit for bit; only who waits for a segment first depends on time.
#: "greedy": any segment that is free, so the order depends on measured times.
#: "round": the paper's barrier: a hop on every segment, and the next round when all have ended.
#: "portfolio": by the rule of `portfolio` that ends the run first in a dry run on measured times; like greedy, it
#: depends on them.
ORDERS = ("rotation", "greedy", "round", "portfolio")


@dataclass(frozen=True)
class State:
    segments: Tuple[int, ...]
    #: One of ORDERS.
    order: str = "rotation"
    #: A hop that failed this often ends its config.
    max_failures: int = 3
    #: Configs that hop together; one in no group hops alone.
    groups: Tuple[Tuple[int, ...], ...] = ()
    #: Configs of which one in their group failed: each hops alone from then on.
    alone: FrozenSet[int] = frozenset()
    up: FrozenSet[int] = frozenset()
    #: config -> epochs asked for; 0 once stopped.
    epochs: Mapping[int, int] = field(default_factory=dict)
    #: Hops of each config's current epoch that have not started.
    waiting: FrozenSet[Hop] = frozenset()
    running: FrozenSet[Hop] = frozenset()
    failures: Mapping[Hop, int] = field(default_factory=dict)
    #: config -> mean seconds of its finished hops and their number.
    measured: Mapping[int, Tuple[float, int]] = field(default_factory=dict)
    #: (config, segment) -> seconds of its last hop there.
    seconds: Mapping[Tuple[int, int], float] = field(default_factory=dict)
    #: Seconds since the run began as far as its hops tell, and when the hop that a segment has began.
    now: float = 0.0
    began: Mapping[int, float] = field(default_factory=dict)
    #: Order portfolio: the rule that is followed, and how many hops have ended when it was chosen.
    rule: int = 0
    chosen_at: int = 0

    @property
    def finished(self) -> bool:
        return not self.waiting and not self.running
