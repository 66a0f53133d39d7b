"""Exports hold what the table holds, are reused while it is unchanged, and are for who may read it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional

import psycopg2
import pytest

from cerebro_db import exports
from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.errors import RunError, UsageError
from cerebro_db.export_files import ExportSource
from cerebro_db.packed import read_packed
from cerebro_db.packed_source import PackedSource
from cerebro_db.sqltext import Fragment, TableName
from tests.preprocessing import IMAGES, TABULAR, emptied, key_of, pack_images, run, train_by_python
from tests.support import wait_until


@pytest.fixture
def db(pg_module: PsycopgDatabase) -> PsycopgDatabase:
    return emptied(pg_module)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CEREBRO_EXPORTS", str(tmp_path / "exports"))
    return tmp_path / "exports"


@pytest.fixture
def opened(db: PsycopgDatabase, pg_module_dsn: str) -> Callable[..., ExportSource]:
    def make(segment: Optional[int] = None, database: PsycopgDatabase = db) -> ExportSource:
        layout = read_packed(db, "packed").layout
        session = partial(connect, pg_module_dsn)
        return exports.open_export(database, session, layout, TableName.parse("packed"), key_of(db, segment))

    return make


def plain(buffers: Iterator[Any]) -> List[Dict[str, bytes]]:
    return [{name: bytes(value) for name, value in buffer.items()} for buffer in buffers]


def through(
    db: PsycopgDatabase, segment: Optional[int], numbers: Optional[List[int]] = None
) -> List[Dict[str, bytes]]:
    columns = [column.column for column in read_packed(db, "packed").layout.columns]
    return plain(PackedSource(db, columns, TableName.parse("packed"), key_of(db, segment)).read(numbers))


def versions(folder: Path) -> Dict[str, int]:
    """Every export, by the inode of its index: one that was written again has another."""
    return {str(path.parent.relative_to(folder)): path.stat().st_ino for path in folder.rglob("index.json")}


@pytest.mark.parametrize("segment", [None, 0, 1])
@pytest.mark.parametrize("table", [IMAGES, TABULAR], ids=["images", "tabular"])
def test_the_same_bytes(
    db: PsycopgDatabase, opened: Callable[..., ExportSource], table: str, segment: Optional[int]
) -> None:
    run(db, "create table raw as " + table.format(900))
    train_by_python(db, "raw", "packed", "y", "img" if table == IMAGES else "a, b, w, f, v", buffer_size=40)
    source = opened(segment)
    assert plain(source.read(None)) == through(db, segment)
    order = list(reversed(range(len(source.rows))))
    assert plain(source.read(order)) == through(db, segment, order)


def test_a_segment_of_no_rows_and_of_one(db: PsycopgDatabase, opened: Callable[..., ExportSource]) -> None:
    pack_images(db, 2)
    run(db, "delete from packed where buffer_id = 1")
    assert [list(opened(segment).rows) for segment in (0, 1, 99)] == [[1], [], []]
    assert plain(opened(0).read(None)) == through(db, 0)
    assert plain(opened(1).read(None)) == []


def test_an_export_is_written_once(db: PsycopgDatabase, opened: Callable[..., ExportSource], folder: Path) -> None:
    pack_images(db, 600)
    for key in (0, 1, None):
        opened(key)
    before = versions(folder)
    assert len(before) == 3
    run(
        db,
        "analyze packed",
        "vacuum packed",
        "vacuum freeze packed",
        "checkpoint",
        "create index on packed (buffer_id)",
    )
    for key in (0, 1, None):
        opened(key)
    assert versions(folder) == before


@pytest.mark.parametrize(
    "change",
    [
        "update packed set y = y where buffer_id = 3",
        "delete from packed where buffer_id = 3",
        "insert into packed select img, img_shape, y, y_shape, 100, 0 from packed where buffer_id = 1",
        "vacuum full packed",
        "truncate packed",
        "create table other as select * from packed; drop table packed; alter table other rename to packed",
    ],
)
def test_a_table_that_changed_is_written_again(
    db: PsycopgDatabase, opened: Callable[..., ExportSource], folder: Path, change: str
) -> None:
    pack_images(db, 600)
    opened(0).close()
    before = versions(folder)
    for statement in change.split("; "):
        run(db, statement)
    source = opened(0)
    assert plain(source.read(None)) == through(db, 0)
    assert not before.items() & versions(folder).items() or "create table" in change


def test_a_reader_of_before_goes_on(db: PsycopgDatabase, opened: Callable[..., ExportSource], folder: Path) -> None:
    pack_images(db, 600)
    old = opened(0)
    before = through(db, 0)
    run(db, "delete from packed where buffer_id = 3")
    assert len(list(opened(0).read(None))) == 7
    assert plain(old.read(None)) == before
    assert len(versions(folder)) == 2
    old.close()
    opened(0)
    assert len(versions(folder)) == 1


def test_other_columns_are_another_export(db: PsycopgDatabase, folder: Path, pg_module_dsn: str) -> None:
    pack_images(db, 600)
    layout = read_packed(db, "packed").layout
    less = replace(layout, inputs=())
    session = partial(connect, pg_module_dsn)
    for each in (layout, less):
        found = exports.open_export(db, session, each, TableName.parse("packed"), key_of(db, 0))
        assert set(next(found.read(None))) == {column.column for column in each.columns}


def test_a_change_while_it_is_written_is_told_and_leaves_nothing(
    db: PsycopgDatabase, opened: Callable[..., ExportSource], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack_images(db, 600)
    read = exports.CopySource.read

    def changing(source: Any, numbers: Any) -> Iterator[Any]:
        yield from read(source, numbers)
        run(db, "update packed set y = y where buffer_id = 0")

    monkeypatch.setattr(exports.CopySource, "read", changing)
    with pytest.raises(RunError, match="table packed changed while it was exported; run it again when nothing writes"):
        opened(0)
    assert versions(folder) == {}


def test_no_session_is_left(db: PsycopgDatabase, folder: Path, pg_module_dsn: str) -> None:
    pack_images(db, 600)
    layout = read_packed(db, "packed").layout
    session = partial(connect, pg_module_dsn, application_name="cerebro_test_export")
    exports.open_export(db, session, layout, TableName.parse("packed"), key_of(db, 0))
    exports.open_export(db, session, layout, TableName.parse("packed"), None)
    sessions = "select pid from pg_stat_activity where application_name = 'cerebro_test_export'"
    wait_until(lambda: db.rows(Fragment(sessions)) == [], 10, "the exporter's session is gone")


def test_who_may_not_read_the_table_gets_no_export_of_it(
    pg: PsycopgDatabase, pg_dsn: str, role: Callable[..., Any]
) -> None:
    pack_images(pg, 600)
    alice = role("alice")()
    layout, table = read_packed(pg, "packed").layout, TableName.parse("packed")
    exports.open_export(pg, partial(connect, pg_dsn), layout, table, key_of(pg, 0))
    for grant in ("select 1", "grant select (buffer_id, __dist_key__, ctid, xmin) on packed to public"):
        run(pg, grant)
        with pytest.raises(UsageError, match="table packed may not be read by this role; have its owner grant"):
            exports.open_export(alice, partial(connect, pg_dsn), layout, table, key_of(pg, 0))
    run(pg, "grant select on packed to public")
    assert sum(exports.open_export(alice, partial(connect, pg_dsn), layout, table, key_of(pg, 0)).rows) == 300


@pytest.mark.postgresql("Greenplum 6 has no row security")
def test_who_sees_other_rows_gets_another_export(pg: PsycopgDatabase, pg_dsn: str, role: Callable[..., Any]) -> None:
    pack_images(pg, 600)
    bob = role("bob")
    layout, table = read_packed(pg, "packed").layout, TableName.parse("packed")
    exports.open_export(pg, partial(connect, pg_dsn), layout, table, key_of(pg, 0))
    run(pg, "grant select on packed to public", "alter table packed enable row level security")
    run(pg, "create policy first_ones on packed using (buffer_id < 3)")
    found = exports.open_export(bob(), bob, layout, table, key_of(pg, 0))
    assert len(list(found.read(None))) == 3


def test_a_view_is_refused(db: PsycopgDatabase, pg_module_dsn: str) -> None:
    pack_images(db, 600)
    layout = read_packed(db, "packed").layout
    run(db, "create view seen as select * from packed")
    with pytest.raises(UsageError, match="table seen is no ordinary table"):
        exports.open_export(db, partial(connect, pg_module_dsn), layout, TableName.parse("seen"), 0)


def test_an_error_of_the_server_comes_as_it_is(db: PsycopgDatabase, folder: Path, pg_module_dsn: str) -> None:
    pack_images(db, 600)
    layout = read_packed(db, "packed").layout
    session = partial(connect, pg_module_dsn, options="-c statement_timeout=1")
    run(db, "alter table packed rename column img to image")
    with pytest.raises(psycopg2.errors.UndefinedColumn):
        exports.open_export(db, session, layout, TableName.parse("packed"), key_of(db, 0))
    assert versions(folder) == {}
