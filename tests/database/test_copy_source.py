"""Buffers by COPY are those of the executor; readers are ahead, in bounded memory, and leave nothing behind."""

from __future__ import annotations

import random
import threading
from functools import partial
from typing import Any, Callable, Dict, Iterator, List, Optional

import psycopg2
import pytest

from cerebro_db import copy_source
from cerebro_db.batches import SegmentRows
from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.copy_source import CopySource
from cerebro_db.errors import RunError, SetupError, UsageError
from cerebro_db.packed import read_packed
from cerebro_db.packed_source import PackedSource
from cerebro_db.sqltext import Fragment, TableName
from tests.preprocessing import IMAGES, TABULAR, emptied, key_of, pack_images, run, train_by_python
from tests.support import wait_until

NAME = "cerebro_test_reader"
AHEAD = 60_000

@pytest.fixture
def db(pg_module: PsycopgDatabase) -> PsycopgDatabase:
    return emptied(pg_module)


@pytest.fixture
def opened(db: PsycopgDatabase, pg_module_dsn: str) -> Iterator[Callable[..., CopySource]]:
    """Opens sources, whose sessions bear NAME, and looks that none is left in the end."""
    made: List[CopySource] = []

    def make(columns: List[str], segment: Optional[int] = None, ahead: int = AHEAD) -> CopySource:
        reader = partial(connect, pg_module_dsn, application_name=NAME)
        made.append(CopySource(db, reader, columns, TableName.parse("packed"), key_of(db, segment), ahead))
        return made[-1]

    yield make
    for source in made:
        source.close()
    gone(db)


def columns_of(db: PsycopgDatabase) -> List[str]:
    return [column.column for column in read_packed(db, "packed").layout.columns]


def plain(buffers: Iterator[Any]) -> List[Dict[str, bytes]]:
    return [{name: bytes(value) for name, value in buffer.items()} for buffer in buffers]


def through(
    db: PsycopgDatabase, segment: Optional[int], numbers: Optional[List[int]] = None
) -> List[Dict[str, bytes]]:
    return plain(PackedSource(db, columns_of(db), TableName.parse("packed"), key_of(db, segment)).read(numbers))


def readers(db: PsycopgDatabase) -> List[Dict[str, Any]]:
    return db.rows(
        Fragment("select pid, state, backend_xmin::text as xmin from pg_stat_activity where application_name = %(n)s"),
        n=NAME,
    )


def gone(db: PsycopgDatabase) -> None:
    wait_until(lambda: not readers(db), 10, f"readers are gone: {readers(db)}")
    assert [thread.name for thread in threading.enumerate() if thread.name == "cerebro reader"] == []


# -- the same bytes --------------------------------------------------------------------------------


@pytest.mark.parametrize("segment", [None, 0, 1])
@pytest.mark.parametrize("table", [IMAGES, TABULAR], ids=["images", "tabular"])
def test_the_same_bytes(
    db: PsycopgDatabase, opened: Callable[..., CopySource], table: str, segment: Optional[int]
) -> None:
    run(db, "create table raw as " + table.format(900))
    train_by_python(db, "raw", "packed", "y", "img" if table == IMAGES else "a, b, w, f, v", buffer_size=40)
    source = opened(columns_of(db), segment)
    assert plain(source.read(None)) == through(db, segment)
    order = list(range(len(source.rows)))
    for seed in (1, 1, 2):  # the same order again comes from the reader that went on with it
        random.Random(seed).shuffle(order := sorted(order))
        assert plain(source.read(order)) == through(db, segment, order)


def test_a_segment_of_no_rows_and_of_one(db: PsycopgDatabase, opened: Callable[..., CopySource]) -> None:
    pack_images(db, 2)
    run(db, "delete from packed where buffer_id = 1")
    assert [list(opened(["img", "y"], segment).rows) for segment in (0, 1, 99)] == [[1], [], []]
    for segment in (0, 1, 99):
        assert plain(opened(["img", "y"], segment).read(None)) == through(db, segment)
        assert list(opened(["img", "y"], segment).read([])) == []


def test_segment_rows_give_the_same_batches(db: PsycopgDatabase, opened: Callable[..., CopySource]) -> None:
    pack_images(db, 1200)
    layout = read_packed(db, "packed").layout

    def epoch(source: Any) -> List[Any]:
        rows = SegmentRows(source, layout, 0, 100_000)
        return [[x.numpy().tobytes() for x in (*i, t)] for e in (1, 1, 2) for i, t in rows.epoch((1, e, 0), 37)]

    found = epoch(opened(["img", "y"], 0))
    assert len(found) == 3 * 17
    assert found == epoch(PackedSource(db, ["img", "y"], TableName.parse("packed"), key_of(db, 0)))


def test_names_that_want_quoting(db: PsycopgDatabase, pg_module_dsn: str) -> None:
    run(db, 'create schema if not exists "we\'ird 100%s"')
    run(
        db,
        'create table raw as select i as "y\'1", decode(md5(i::text), \'hex\') as "i""m%" from generate_series(1, 9) i',
    )
    train_by_python(db, "raw", '"we\'ird 100%s"."p%(x)s"', '"y\'1"', '"i""m%"', buffer_size=4)
    table, columns = TableName("we'ird 100%s", "p%(x)s"), ['i"m%', "y'1"]
    source = CopySource(db, partial(connect, pg_module_dsn), columns, table, None, AHEAD)
    found = plain(source.read([1, 0]))
    source.close()
    assert found == plain(PackedSource(db, columns, table, None).read([1, 0]))
    run(db, 'drop schema "we\'ird 100%s" cascade')


# -- ahead, in bounds, and gone --------------------------------------------------------------------


def test_the_reader_is_ahead_by_the_bytes_it_may_and_no_more(
    db: PsycopgDatabase, opened: Callable[..., CopySource]
) -> None:
    pack_images(db, 1200)
    source = opened(["img", "y"], None)
    buffers = source.read(None)
    next(buffers)
    reader = source._reader
    assert reader is not None
    one = 40 * (784 + 4)
    wait_until(lambda: reader._waiting_bytes + one + 8 > AHEAD, 10, "the queue is full")
    assert reader._waiting_bytes == len(reader._rows) * (one + 8) <= AHEAD
    buffers.close()
    gone(db)


@pytest.mark.parametrize("segment", [None, 0])
def test_a_consumer_that_stops_early_leaves_nothing(
    db: PsycopgDatabase, opened: Callable[..., CopySource], segment: Optional[int]
) -> None:
    pack_images(db, 1200)
    buffers = opened(["img", "y"], segment).read(None)
    next(buffers)
    assert len(readers(db)) == 1
    buffers.close()
    gone(db)


def test_after_a_read_of_a_segment_its_reader_begins_again(
    db: PsycopgDatabase, opened: Callable[..., CopySource]
) -> None:
    pack_images(db, 1200)
    source = opened(["img", "y"], 0)
    order = list(reversed(range(len(source.rows))))
    list(source.read(order))
    (before,) = readers(db)
    reader = source._reader
    assert reader is not None
    wait_until(lambda: bool(reader._rows), 10, "the reader is ahead of the next read")
    assert plain(source.read(order)) == through(db, 0, order)
    (after,) = readers(db)
    assert after["pid"] == before["pid"]
    assert plain(source.read(None)) == through(db, 0)
    wait_until(lambda: before["pid"] not in [row["pid"] for row in readers(db)], 10, "the old reader is gone")
    source.close()
    gone(db)


def test_validation_leaves_no_session_between_its_reads(db: PsycopgDatabase, opened: Callable[..., CopySource]) -> None:
    pack_images(db, 1200)
    source = opened(["img", "y"], None)
    assert len(list(source.read(None))) == len(list(source.read(None))) == 30
    gone(db)


def test_a_reader_that_is_ahead_in_vain_lets_its_snapshot_go(
    db: PsycopgDatabase, opened: Callable[..., CopySource], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copy_source, "IDLE_SECONDS", 0.2)
    pack_images(db, 1200)
    source = opened(["img", "y"], 0)
    list(source.read(None))
    gone(db)
    assert plain(source.read(None)) == through(db, 0)


def test_a_new_read_ends_the_one_before(db: PsycopgDatabase, opened: Callable[..., CopySource]) -> None:
    pack_images(db, 1200)
    source = opened(["img", "y"], 0)
    first = source.read(None)
    next(first)
    assert plain(source.read(None)) == through(db, 0)
    with pytest.raises(RunError, match="ended by a later one"):
        list(first)


def test_a_reader_that_waits_for_the_server_is_ended_too(
    db: PsycopgDatabase, opened: Callable[..., CopySource], pg_module_dsn: str
) -> None:
    pack_images(db, 1200)
    source = opened(["img", "y"], 0)
    with connect(pg_module_dsn) as other:
        run(other, "begin", "lock table packed")
        reader = source._reader_of(source._ids, True)
        waits = Fragment("select 1 from pg_locks where not granted and locktype = 'relation'")
        wait_until(lambda: bool(db.rows(waits)), 10, "the reader waits for the lock")
        source.close()
        with pytest.raises(RunError, match="ended by a later one"):
            reader.take()
        gone(db)
        run(other, "rollback")


# -- errors ----------------------------------------------------------------------------------------


def test_errors_of_the_reader_come_as_they_are(db: PsycopgDatabase, opened: Callable[..., CopySource]) -> None:
    pack_images(db, 1200)
    source = opened(["img", "y"], 0)
    run(db, "alter table packed rename column img to image")
    with pytest.raises(psycopg2.errors.UndefinedColumn, match="img"):
        list(source.read(None))
    gone(db)


def test_a_server_that_lets_no_reader_in_is_told(db: PsycopgDatabase, pg_module_dsn: str) -> None:
    pack_images(db, 1200)
    nowhere = partial(connect, pg_module_dsn, dbname="no_such_database")
    source = CopySource(db, nowhere, ["img", "y"], TableName.parse("packed"), 0, AHEAD)
    with pytest.raises(SetupError, match="no_such_database"):
        list(source.read(None))


def test_a_session_that_is_killed_is_told(db: PsycopgDatabase, opened: Callable[..., CopySource]) -> None:
    pack_images(db, 20000)
    buffers = opened(["img", "y"], 0).read(None)
    next(buffers)
    run(db, "select pg_terminate_backend(pid) from pg_stat_activity where application_name = '" + NAME + "'")
    with pytest.raises(psycopg2.OperationalError, match="terminating connection|ended in the middle of COPY"):
        list(buffers)
    gone(db)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ("delete from packed where buffer_id = 3", RunError, "buffer 4 .* where 3 was expected; run it again when"),
        ("delete from packed where buffer_id = 14", RunError, "has 14 buffers where 15 were expected"),
        ("update packed set img = null where buffer_id = 3", UsageError, "'img' .* is NULL"),
    ],
)
def test_a_change_after_opening_is_told(
    db: PsycopgDatabase, opened: Callable[..., CopySource], change: str, error: type, message: str
) -> None:
    pack_images(db, 1200)
    source = opened(["img", "y"], 0)
    run(db, change)
    with pytest.raises(error, match=message):
        list(source.read(None))
    gone(db)
