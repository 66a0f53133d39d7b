"""The `Database` seam inside a backend, over PL/Python's `plpy`."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Tuple

from cerebro_db.database import Row, sql_type
from cerebro_db.sqltext import Fragment, numbered


class PlpyDatabase:
    """The caller's own session. Plans are prepared once per statement and value types."""

    def __init__(self, plpy: Any) -> None:
        self._plpy = plpy
        self._plans: Dict[Tuple[str, Tuple[str, ...]], Any] = {}

    def rows(self, sql: Fragment, **values: Any) -> List[Row]:
        plan, arguments = self._prepared(sql, values)
        result = self._plpy.execute(plan, arguments)
        return [dict(row) for row in result] if result.nrows() and len(result) else []

    def stream(self, sql: Fragment, **values: Any) -> Iterator[Row]:
        plan, arguments = self._prepared(sql, values)
        yield from self._plpy.cursor(plan, arguments)

    def notice(self, message: str) -> None:
        self._plpy.info(message)

    def _prepared(self, sql: Fragment, values: Dict[str, Any]) -> Tuple[Any, List[Any]]:
        text, names = numbered(sql)
        arguments = [values[name] for name in names]
        types = tuple(sql_type(value) for value in arguments)
        plan = self._plans.get((text, types))
        if plan is None:
            plan = self._plans[text, types] = self._plpy.prepare(text, list(types))
        return plan, arguments
