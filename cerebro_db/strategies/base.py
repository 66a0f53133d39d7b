"""The one seam that users switch by configuration: how rows reach the training loop, and where it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, List, Mapping, Protocol

from cerebro_db.hopper import Event, StartHop
from cerebro_db.plan import Groups, Plan
from cerebro_db.weights import Shapes


@dataclass(frozen=True)
class Report:
    """What a strategy has to tell: an event, and whether the hop's loss stopped being a number."""

    event: Event
    diverged: bool = False


class Strategy(Protocol):
    """Runs hops. All calls come from one thread, the coordinator's.

    A hop that is reported finished has its new state and its event committed, in one transaction.

    A class may have `require(database: Database) -> None` (a class method): called before anything is
    made, it raises SetupError that names what the server lacks for the strategy, and the remedy.
    An instance may have `remarks`, sentences for the caller of how it will train.
    """

    name: ClassVar[str]
    #: Configs to train as one, once `ready`.
    groups: Groups

    def check(self, plan: Plan, initial: Mapping[int, Shapes]) -> None:
        """Begin to build every config where it will train; `ready` tells what came of it.

        `initial`: mst_key -> shapes of the weights that a config starts from, if it does.
        """

    def ready(self, seconds: float) -> bool:
        """Whether start and check are over, waiting at most so long. Raises UsageError for a misfit."""

    def begin(self, run_id: int) -> None:
        """Open every segment of the run; each is reported as SegmentUp when it can take a hop."""

    def submit(self, start: StartHop) -> None:
        """Start a hop on its segment, which is up and free."""

    def wait(self, seconds: float) -> List[Report]:
        """What happened, at the latest after so long; [] when nothing did."""

    def rest(self) -> None:
        """All hops are over: what they ran in is kept for the caller's next call, or ends."""

    def close(self) -> None:
        """End hops, sessions and processes now; what is committed stays."""
