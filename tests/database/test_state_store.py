"""States between hops: the same bytes by COPY and by values, in one chunk and in several."""

from __future__ import annotations

from typing import Any, Callable, Iterator, List

import pytest

from cerebro_db import state
from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.database import Database, Row
from cerebro_db.sqltext import Fragment
from cerebro_db.state import Blobs
from cerebro_db.state_store import StateStore
from tests import runs
from tests.runs import sql

#: Zeros, quotes and backslashes are what literals would have to escape.
WEIGHTS = bytes(range(256)) * 20
REST = b"\x00'\\" * 1000


class Values:
    """A session as a backend's: it binds values and cannot copy."""

    def __init__(self, database: PsycopgDatabase) -> None:
        self._database = database
        self.statements = 0

    def rows(self, statement: Fragment, **values: Any) -> List[Row]:
        self.statements += 1
        return self._database.rows(statement, **values)

    def stream(self, statement: Fragment, **values: Any) -> Iterator[Row]:
        return self._database.stream(statement, **values)

    def notice(self, message: str) -> None: ...


@pytest.fixture(scope="module")
def run_id(pg_module: PsycopgDatabase, pg_module_dsn: str) -> int:
    """A run that was cancelled, with its state tables."""
    runs.make_images(pg_module, "images", 40)
    runs.pack(pg_module, "images", "packed", 1)
    runs.make_selection(pg_module, "one", {3: (runs.MLP, runs.ADAM, "batch_size=8")})
    running, run_id = runs.start_fit(pg_module_dsn, pg_module, "packed", "out", "one", 10_000, threads=1)
    running.database.connection.cancel()
    running.failed(10)
    running.close()
    return run_id


def stored(database: PsycopgDatabase, run_id: int) -> Any:
    text = f"select part, chunk, data from cerebro_private.state_{run_id}_3 order by part, chunk"
    return [(row["part"], row["chunk"], bytes(row["data"])) for row in database.rows(sql(text))]


@pytest.mark.parametrize("kind", [lambda database: database, Values], ids=["copy", "values"])
def test_what_is_saved_is_loaded(
    pg_module: PsycopgDatabase, run_id: int, monkeypatch: pytest.MonkeyPatch, kind: Callable[[Any], Database]
) -> None:
    monkeypatch.setattr(state, "CHUNK_BYTES", 3000)
    store = StateStore(kind(pg_module), run_id)
    for _ in range(2):  # the second replaces the first
        with pg_module.transaction():
            store.save(3, Blobs(WEIGHTS, REST).chunks())
    expected = [("rest", 0, REST), ("weights", 0, WEIGHTS[:3000]), ("weights", 1, WEIGHTS[3000:])]
    assert stored(pg_module, run_id) == expected
    assert store.load(3) == {"weights": WEIGHTS, "rest": REST}


def test_a_rollback_keeps_the_state_before(pg_module: PsycopgDatabase, run_id: int) -> None:
    store = StateStore(pg_module, run_id)
    with pg_module.transaction():
        store.save(3, Blobs(WEIGHTS, REST).chunks())
    pg_module.script(sql("begin"))
    store.save(3, Blobs(b"other", b"other").chunks())
    pg_module.script(sql("rollback"))
    assert store.load(3) == {"weights": WEIGHTS, "rest": REST}
    with pg_module.transaction():
        store.save(3, Blobs(b"next", b"rest").chunks())
    assert store.load(3) == {"weights": b"next", "rest": b"rest"}


def test_a_role_without_temporary_tables_saves_by_values(
    pg: PsycopgDatabase, pg_dsn: str, role: Callable[..., Any]
) -> None:
    alice = role("alice")
    session = alice()
    runs.make_images(session, "images", 40)
    runs.pack(session, "images", "packed", 1)
    runs.make_selection(session, "one", {3: (runs.MLP, runs.ADAM, "batch_size=8")})
    revoke = "do $$ begin execute format('revoke temporary on database %I from public', current_database()); end $$"
    pg.script(sql(revoke))
    row = runs.fit(session, "packed", "out", "one", 1, threads=1, strategy="streaming")
    assert row["status"] == "finished"
    assert len(runs.weights(session, "out", 3)) > 0
    with connect(pg_dsn) as other:
        assert other.rows(sql("select count(*) as n from pg_class where relname = 'cerebro_stage'"))[0]["n"] == 0
