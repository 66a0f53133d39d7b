"""Strategy `in_rdbms`: the coordinator is a backend, and so is every trainer."""

from __future__ import annotations

from typing import ClassVar, Tuple

from cerebro_db.strategies.in_sessions import InSessions


class InRdbms(InSessions):
    """Training in loopback sessions of the server that coordinates."""

    name: ClassVar[str] = "in_rdbms"
    #: What the caller is told of how it will train.
    remarks: Tuple[str, ...] = ()
