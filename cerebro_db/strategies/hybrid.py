"""Strategy `hybrid`: the coordinator is a client, which sends targeted queries; training stays in the server."""

from __future__ import annotations

from typing import ClassVar, Tuple

from cerebro_db.strategies.in_sessions import InSessions


class Hybrid(InSessions):
    """One pooled session per segment, one prepared query per hop; state never passes through the client."""

    name: ClassVar[str] = "hybrid"
    prepare: ClassVar[Tuple[str, ...]] = ("prepare_hop",)
    train: ClassVar[str] = "execute_hop"
