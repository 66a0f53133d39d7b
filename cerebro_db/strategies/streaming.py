"""Strategy `streaming`: worker processes that fetch their segment over a connection, every epoch anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Optional

from cerebro_db.client import PsycopgDatabase
from cerebro_db.plan import Plan
from cerebro_db.sessions import Login
from cerebro_db.sqltext import TableName
from cerebro_db.strategies.workers import Workers

if TYPE_CHECKING:
    from cerebro_db.batches import Source
    from cerebro_db.hops import OpenSource


class Streaming(Workers):
    """Rows come by binary COPY, about one window ahead of the training, and are not kept: cache_mb has no say."""

    name: ClassVar[str] = "streaming"

    @staticmethod
    def open_source(login: Login, database: PsycopgDatabase, plan: Plan) -> OpenSource:
        """Runs in the worker process."""
        from cerebro_db.copy_source import CopySource  # NumPy and torch: not in the coordinator

        columns, ahead = plan.layout.names, plan.options.window_bytes

        def opened(table: TableName, dist_key: Optional[int]) -> Source:
            return CopySource(database, login.connect, columns, table, dist_key, ahead)

        return opened
