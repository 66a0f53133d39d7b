"""Where the time of a hop goes, by its own clock: every second between two marks belongs to the latter's phase."""

from __future__ import annotations

import time
from typing import Callable, Dict, List, NamedTuple

#: Ends a phase: the time since the mark before is of the phase of this name.
Mark = Callable[[str], None]
#: The phases of a hop in their usual order.
PHASES = (
    "load state", "build", "rows", "zero gradients", "forward", "loss", "backward", "optimizer", "read loss", "metric",
    "look for interrupts", "schedule", "validation rows", "validation", "dump state", "save state", "record",
)  # fmt: skip


class Spent(NamedTuple):
    """What a phase took."""

    phase: str
    calls: int
    seconds: float


class Phases:
    """The clock of a visit. Used from one thread."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        """A new visit begins now."""
        self._calls: Dict[str, int] = {}
        self._seconds: Dict[str, float] = {}
        self._last = time.perf_counter()

    def mark(self, phase: str) -> None:
        now = time.perf_counter()
        self._seconds[phase] = self._seconds.get(phase, 0.0) + now - self._last
        self._calls[phase] = self._calls.get(phase, 0) + 1
        self._last = now

    def spent(self, width: int = 1) -> List[Spent]:
        """Calls and seconds by phase; of a visit of several configs the share of each in the seconds."""
        return [Spent(phase, self._calls[phase], seconds / width) for phase, seconds in self._seconds.items()]


def unmarked(phase: str) -> None:
    """A mark that nobody reads."""
