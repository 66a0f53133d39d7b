"""States between hops: the same bytes by COPY and by values, in one chunk and in several."""

from __future__ import annotations

from typing import Any, Callable, Iterator, List

import psycopg2
import pytest

from cerebro_db import state
from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.database import Database, Row
from cerebro_db.sqltext import Fragment, query
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
def run_id(pg_module: PsycopgDatabase) -> int:
    """A run with one config, 3, which nobody trains."""
    return started(pg_module)


def started(database: PsycopgDatabase) -> int:
    start = "select cerebro_private.start_run('s', 'p', null, 'o', 'm', 1, 'streaming', 'loss', '{}', null, null) as id"
    run_id = int(database.rows(sql(start))[0]["id"])
    database.rows(
        sql("select cerebro_private.add_config(%(run_id)s::integer, 3, 1, '', '', '{}')"), run_id=run_id
    )
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


def test_what_is_staged_is_taken_from_the_catalogs_own_table_only(
    pg: PsycopgDatabase, role: Callable[..., Any]
) -> None:
    """A function that a view or a cast of the caller's would call must not run with the installer's rights."""
    alice = role("alice")()
    run_id = started(alice)
    took = "create function pg_temp.took() returns bytea language sql as 'select rolname::text::bytea from pg_authid'"
    for statement in (
        took, "create temporary view cerebro_stage as select 'rest'::text as part, 0 as chunk, pg_temp.took() as data"
    ):
        alice.script(sql(statement))
    with pytest.raises(psycopg2.errors.InsufficientPrivilege, match="is not that of cerebro-db; drop it and run again"):
        alice.rows(query("catalog", "save_staged"), run_id=run_id, mst_key=3)
    alice.script(sql("drop view pg_temp.cerebro_stage"))
    store = StateStore(alice, run_id)
    with alice.transaction():
        store.save(3, Blobs(WEIGHTS, REST).chunks())
    assert store.load(3) == {"weights": WEIGHTS, "rest": REST}
    with pytest.raises(psycopg2.errors.InsufficientPrivilege):
        alice.script(sql("alter table pg_temp.cerebro_stage alter column data type text using 'x'"))
    with pytest.raises(psycopg2.Error, match=f"run {run_id} does not exist or belongs to another role"):
        role("bob")().rows(query("catalog", "save_staged"), run_id=run_id, mst_key=3)
