"""The seam between a strategy and the processes that its workers run in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, List, Mapping, Protocol, Union

#: What a worker is told and answers, plain values as in JSON; see `worker.work`.
Message = Mapping[str, Any]


@dataclass(frozen=True)
class Answer:
    """What a segment's worker said."""

    segment: int
    message: Message


@dataclass(frozen=True)
class Loss:
    """A segment's worker is gone, with what it had not answered yet."""

    segment: int
    #: One sentence, which names the process and how it ended.
    reason: str


News = Union[Answer, Loss]


class Executor(Protocol):
    """Runs one worker per segment. Used from one thread."""

    def start(self, segment: int) -> None:
        """A fresh worker for the segment; ends the one that it had. Raises SetupError when none can be."""

    def send(self, segment: int, message: Message) -> None:
        """Tell a worker; it answers each message once, in order."""

    def wait(self, seconds: float) -> List[News]:
        """What was said, and who was lost, in order; [] when nothing happened for so long."""

    def rest(self, seconds: float) -> None:
        """Keep workers that have answered everything for their owner's next call, so long; end the others."""

    def close(self) -> None:
        """End every worker now; none is left when this returns."""
