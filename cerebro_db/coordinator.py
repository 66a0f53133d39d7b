"""The one loop: what `hopper` decides is performed, what happens is told to `hopper`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, Dict, List, Optional, Protocol, Sequence

from cerebro_db.errors import RunError
from cerebro_db.hopper import (
    ConfigDone,
    ConfigFailed,
    ConfigStopped,
    EpochDone,
    Event,
    HopFinished,
    Instruction,
    StartHop,
    State,
    step,
)
from cerebro_db.strategies.base import Report, Strategy

#: How long the loop waits for news before it looks for interrupts [s].
POLL_SECONDS = 0.1


class Log(Protocol):
    """Where events and ends are kept; `catalog.Catalog` is one."""

    def record(self, event: Event) -> None: ...

    def end_config(self, config: int, status: str, error: Optional[str] = None) -> None: ...


@dataclass
class Coordinator:
    """Runs a schedule to its end. Used from one thread."""

    strategy: Strategy
    log: Log
    #: Looks for interrupts; raises to end the run.
    check: Callable[[], None]
    #: Told of every finished epoch of a config.
    epoch_done: Callable[[EpochDone], None]
    #: Configs that ended badly, with their status; the rest end as finished.
    ended: Dict[int, str] = field(default_factory=dict)

    def run(self, state: State) -> State:
        """Go on from `state` until no hop is left. Raises what `check` raises, and RunError."""
        reports: List[Report] = []
        while not state.finished:
            self.check()
            reports += self.strategy.wait(0 if reports else POLL_SECONDS)
            events = [event for report in reports for event in self._recorded(report)]
            state, instructions = step(state, *events)
            reports = self._perform(instructions)
        if self.ended and all(config in self.ended for config in state.epochs):
            raise RunError(f"all {len(state.epochs)} configs failed or diverged; cerebro.config has the reason of each")
        return state

    def _recorded(self, report: Report) -> List[Event]:
        """What a report tells `hopper`, once the log has it."""
        if not isinstance(report.event, HopFinished):  # its session has recorded it, with the state
            self.log.record(report.event)
        if report.diverged and isinstance(report.event, HopFinished):
            return [self._diverged(report.event), report.event]
        return [report.event]

    def _diverged(self, event: HopFinished) -> ConfigStopped:
        """Stop the config before its hop counts as finished, so that no further hop starts."""
        reason = f"loss is not a number in epoch {event.hop.epoch} on segment {event.hop.segment}"
        self.ended[event.hop.config] = "diverged"
        self.log.end_config(event.hop.config, "diverged", reason)
        stopped = ConfigStopped(event.hop.config, reason)
        self.log.record(stopped)
        return stopped

    def _perform(self, instructions: Sequence[Instruction]) -> List[Report]:
        """Do what is told; gives what was reported meanwhile."""
        starts = [instruction for instruction in instructions if isinstance(instruction, StartHop)]
        for start in starts:  # first, so that no segment waits while ends are written down
            self.strategy.submit(start)
        # A hop is under way only when its strategy has had the time to send it.
        reports = self.strategy.wait(0) if 0 < len(starts) < len(instructions) else []
        for instruction in instructions:
            if isinstance(instruction, EpochDone):
                self.epoch_done(instruction)
            elif isinstance(instruction, ConfigFailed):
                self.ended[instruction.config] = "failed"
                self.log.end_config(instruction.config, "failed", instruction.reason)
            elif isinstance(instruction, ConfigDone) and instruction.config not in self.ended:
                self.log.end_config(instruction.config, "finished")
        return reports
