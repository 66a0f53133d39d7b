"""What a strategy knows of its segments: which are up, what runs on them, how often each was lost."""

from __future__ import annotations

from typing import Collection, Dict, Iterable, List, Optional, Set

from cerebro_db.catalog import Catalog
from cerebro_db.errors import RunError, SetupError, line_of
from cerebro_db.hopper import HopFailed, HopFinished, SegmentDown, SegmentUp, StartHop
from cerebro_db.outages import outage
from cerebro_db.sessions import ServerError, Sessions
from cerebro_db.strategies.base import Report

#: A segment that is lost this often in a row, without a hop between, ends the run.
MAX_LOSSES = 3


class Ledger:
    """The segments of a run, and the reports that go with what happens to them."""

    def __init__(self, segments: Iterable[int]) -> None:
        self._losses = dict.fromkeys(segments, 0)
        self._hops: Dict[int, StartHop] = {}
        self._up: Set[int] = set()

    def is_up(self, segment: int) -> bool:
        return segment in self._up

    def running(self, segment: int) -> Optional[StartHop]:
        """The hop that the segment is busy with."""
        return self._hops.get(segment)

    def started(self, start: StartHop) -> None:
        self._hops[start.hop.segment] = start

    def up(self, segment: int) -> Report:
        self._up.add(segment)
        return Report(SegmentUp(segment))

    def finished(self, segment: int, seconds: float, diverged: Collection[int]) -> List[Report]:
        """A report per config that visited; `diverged`: those whose loss was no number."""
        self._losses[segment] = 0
        hops = self._hops.pop(segment).hops
        return [Report(HopFinished(hop, seconds), hop.config in diverged) for hop in hops]

    def failed(self, segment: int, reason: str) -> List[Report]:
        return [Report(HopFailed(hop, reason)) for hop in self._hops.pop(segment).hops]

    def lost(self, segment: int, reason: str, run_id: Optional[int]) -> Report:
        """The segment is down, and its hop with it. Raises RunError when that happens again and again."""
        self._hops.pop(segment, None)
        self._up.discard(segment)
        self._losses[segment] += 1
        if self._losses[segment] >= MAX_LOSSES:
            raise cannot_train(segment, reason, run_id)
        return Report(SegmentDown(segment, reason))


def cannot_train(segment: int, reason: str, run_id: Optional[int]) -> RunError:
    """That a segment cannot go on, and what to do; at an outage of the cluster, which host to mend."""
    return cut_off(reason, run_id) or RunError(
        f"segment {segment} cannot train: {reason}; the finished hops are kept, see the server's log, "
        f"then: select madlib_mop_resume({run_id})"
    )


def cut_off(reason: str, run_id: Optional[int]) -> Optional[RunError]:
    """That a run cannot go on while a segment of the cluster does not answer; None when the reason is another."""
    down = outage(reason)
    return RunError(f"{down}; the finished hops are kept, then: select madlib_mop_resume({run_id})") if down else None


def after_loss(
    sessions: Sessions, ledger: Ledger, segment: int, reason: str, run_id: Optional[int]
) -> List[Report]:
    """What became of the hop of a trainer that is gone, and that its segment is down.

    Raises RunError when the server is gone too, or when the segment is lost again and again.
    """
    try:
        done = settled(sessions, ledger, segment, run_id)
    except (SetupError, ServerError) as error:
        raise cannot_train(segment, f"{reason}; {line_of(error)}", run_id) from error
    down = ledger.lost(segment, reason, run_id)
    return [*done, down]


def settled(sessions: Sessions, ledger: Ledger, segment: int, run_id: Optional[int]) -> List[Report]:
    """The hops of a worker that is gone, if they were committed before its answer came: they must not run again."""
    start = ledger.running(segment)
    if start is None or run_id is None:
        return []
    with sessions.connect() as session:
        rows = [Catalog(session, run_id).finished_hop(hop) for hop in start.hops]
    done = {hop.config: row for hop, row in zip(start.hops, rows) if row is not None}
    if not done:
        return []
    seconds = max(row["seconds"] for row in done.values())
    return ledger.finished(segment, seconds, [config for config, row in done.items() if row["diverged"]])
