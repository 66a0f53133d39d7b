"""Strategy `direct`: worker processes on the server's host that read its files past the server."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from cerebro_db.client import PsycopgDatabase
from cerebro_db.plan import Plan
from cerebro_db.sessions import Login
from cerebro_db.strategies.workers import Workers

if TYPE_CHECKING:
    from cerebro_db.hops import OpenSource


class Direct(Workers):
    """Rows come from heap and TOAST pages; the server says where they lie."""

    name: ClassVar[str] = "direct"

    @staticmethod
    def open_source(login: Login, database: PsycopgDatabase, plan: Plan) -> OpenSource:
        """Runs in the worker process."""
        from cerebro_db.page_source import open_pages  # NumPy and torch: not in the coordinator

        return partial(open_pages, database, login.connect, plan.layout.names)
