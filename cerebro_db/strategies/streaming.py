"""Strategy `streaming`: worker processes that fetch their segment over a connection, every epoch anew."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from cerebro_db.client import PsycopgDatabase
from cerebro_db.plan import Plan
from cerebro_db.sessions import Login
from cerebro_db.strategies.workers import Workers

if TYPE_CHECKING:
    from cerebro_db.hops import OpenSource


class Streaming(Workers):
    """Rows come through the executor of the worker's session."""

    name: ClassVar[str] = "streaming"

    @staticmethod
    def open_source(login: Login, database: PsycopgDatabase, plan: Plan) -> OpenSource:
        """Runs in the worker process."""
        from cerebro_db.packed_source import PackedSource  # NumPy and torch: not in the coordinator

        return partial(PackedSource, database, [column.column for column in plan.layout.columns])
