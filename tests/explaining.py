"""A session that keeps the plans of the statements that it runs."""

from __future__ import annotations

from typing import Any, List

from cerebro_db.client import PsycopgDatabase
from cerebro_db.database import Row
from cerebro_db.sqltext import Fragment


class Explaining(PsycopgDatabase):
    """Explains every statement that starts with one of `verbs` before it runs."""

    def __init__(self, database: PsycopgDatabase, *verbs: str) -> None:
        super().__init__(database.connection)
        self._verbs = verbs
        self.plans: List[Plan] = []

    def rows(self, sql: Fragment, **values: Any) -> List[Row]:
        if sql.startswith(self._verbs) or _without_comment(sql).startswith(self._verbs):
            found = super().rows(Fragment(f"explain {sql}"), **values)
            self.plans.append(Plan(sql, [row["QUERY PLAN"] for row in found]))
        return super().rows(sql, **values)

    def plan(self, words: str) -> Plan:
        """The plan of the only statement with these words."""
        (found,) = [plan for plan in self.plans if words in plan.sql]
        return found


class Plan:
    """The nodes of a plan as text, the outermost first."""

    def __init__(self, sql: str, lines: List[str]) -> None:
        self.sql = sql
        self.nodes = [line for line in lines if line.lstrip().startswith("->") or line is lines[0]]

    def count(self, node: str) -> int:
        return sum(node in line for line in self.nodes)

    def above(self, node: str, scan: str) -> List[str]:
        """Of each node of that name, what stands between it and the next `scan` below."""
        places = [place for place, line in enumerate(self.nodes) if node in line]
        return ["\n".join(self.nodes[place + 1 : self._next(scan, place)]) for place in places]

    def _next(self, scan: str, place: int) -> int:
        return next((k for k in range(place, len(self.nodes)) if scan in self.nodes[k]), place)


def _without_comment(sql: str) -> str:
    return "\n".join(line for line in sql.splitlines() if not line.lstrip().startswith("--")).lstrip()
