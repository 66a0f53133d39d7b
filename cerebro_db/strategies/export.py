"""Strategy `export`: worker processes that map files, written once while the packed table is unchanged."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from cerebro_db.client import PsycopgDatabase
from cerebro_db.plan import Plan
from cerebro_db.sessions import Login
from cerebro_db.strategies.workers import Workers

if TYPE_CHECKING:
    from cerebro_db.hops import OpenSource


class Export(Workers):
    """The worker that opens a segment first writes its export; all others read it."""

    name: ClassVar[str] = "export"

    @staticmethod
    def open_source(login: Login, database: PsycopgDatabase, plan: Plan) -> OpenSource:
        """Runs in the worker process."""
        from cerebro_db.exports import open_export  # NumPy and torch: not in the coordinator

        return partial(open_export, database, login.connect, plan.layout)
