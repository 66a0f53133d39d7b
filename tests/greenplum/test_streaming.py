"""Strategy `streaming` on Greenplum: one segment is asked for its rows, itself where that is of use."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any, Callable, Dict, Iterator, List, Optional

import psycopg2
import pytest

from cerebro_db import copy_source, endpoints
from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.copy_source import CopySource
from cerebro_db.engines import dialect
from cerebro_db.packed import read_packed
from cerebro_db.packed_source import PackedSource
from cerebro_db.sqltext import Fragment, TableName, query
from tests import runs
from tests.preprocessing import key_of, run
from tests.runs import sql
from tests.support import wait_until

SEGMENTS = 3
NAME = "cerebro_test_reader"
COLUMNS = ["img", "label"]


@pytest.fixture(scope="module")
def data(gp_server: str, pg_module: PsycopgDatabase) -> PsycopgDatabase:
    """Images of 1,024 bytes, in three segments of ten buffers each."""
    runs.make_images(pg_module, "images", 300, side=32)
    runs.pack(pg_module, "images", "packed", SEGMENTS, buffer_size=10)
    pg_module.rows(sql("select validation_preprocessor_dl('images', 'checked', 'label', 'img', 'packed')"))
    run(pg_module, "create extension if not exists gp_parallel_retrieve_cursor")
    return pg_module


@pytest.fixture
def opened(data: PsycopgDatabase, pg_module_dsn: str) -> Iterator[Callable[..., CopySource]]:
    """Opens sources of a segment, and looks that none of their sessions is left in the end."""
    made: List[CopySource] = []

    def make(segment: Optional[int], table: str = "packed") -> CopySource:
        reader = partial(connect, pg_module_dsn, application_name=NAME)
        key = key_of(data, segment, SEGMENTS)
        made.append(CopySource(data, reader, COLUMNS, TableName.parse(table), key, 1_000_000))
        return made[-1]

    yield make
    for source in made:
        source.close()
    left = Fragment("select pid, query from pg_stat_activity where application_name = %(name)s")
    wait_until(lambda: not data.rows(left, name=NAME), 10, "readers are gone")
    assert [thread.name for thread in threading.enumerate() if thread.name == "cerebro reader"] == []


def plain(buffers: Iterator[Any]) -> List[Dict[str, bytes]]:
    return [{name: bytes(value) for name, value in buffer.items()} for buffer in buffers]


def through(data: PsycopgDatabase, segment: Optional[int]) -> List[Dict[str, bytes]]:
    key = key_of(data, segment, SEGMENTS)
    return plain(PackedSource(data, COLUMNS, TableName.parse("packed"), key).read(None))


def plan(session: PsycopgDatabase, source: CopySource, numbers: Optional[List[int]]) -> List[str]:
    """How the server runs the query of a read, with literals for values, as COPY has them."""
    ids = source._ids if numbers is None else [source._ids[number] for number in numbers]
    copy = source._reader_of(ids, numbers is None)._copy
    with session.connection.cursor() as cursor:
        cursor.execute(cursor.mogrify("explain " + copy.sql, copy.values))
        return [line for (line,) in cursor.fetchall()]


# -- one segment -----------------------------------------------------------------------------------


@pytest.mark.parametrize("planner", ["off", "on"])
@pytest.mark.parametrize("numbers", [None, [9, 3, 0, 7]], ids=["all", "some"])
def test_one_segment_is_asked(
    data: PsycopgDatabase, pg_module_dsn: str, opened: Callable[..., CopySource], numbers: Any, planner: str
) -> None:
    with connect(pg_module_dsn) as session:
        try:
            run(session, f"set optimizer = {planner}")
        except psycopg2.Error as error:
            pytest.skip(f"this server has one planner: {error}")
        lines = plan(session, opened(1), numbers)
    motions = [line.strip() for line in lines if "Motion" in line]
    assert len(motions) == 1
    assert "Gather Motion" in motions[0]
    assert "segments: 1)" in motions[0]


def test_each_segment_has_a_primary_of_its_own(data: PsycopgDatabase, opened: Callable[..., CopySource]) -> None:
    found = data.rows(sql("select distinct __dist_key__ as key, gp_segment_id as place from packed"))
    places = {row["key"]: row["place"] for row in found}
    primaries = len(data.rows(dialect(data, "primaries")))
    expected = [segment % primaries for segment in range(SEGMENTS)]
    assert [places[key_of(data, segment, SEGMENTS)] for segment in range(SEGMENTS)] == expected
    for segment in range(SEGMENTS):
        source = opened(segment)
        assert plain(source.read(None)) == through(data, segment)
        assert plain(source.read([9, 3, 0, 7])) == [through(data, segment)[number] for number in (9, 3, 0, 7)]


def test_a_replicated_validation_table_is_read_once(data: PsycopgDatabase, opened: Callable[..., CopySource]) -> None:
    layout = read_packed(data, "checked").layout
    assert [column.column for column in layout.columns] == COLUMNS
    found = plain(opened(None, "checked").read(None))
    assert sum(len(buffer["img"]) for buffer in found) == 300 * 1024


# -- the segment itself ----------------------------------------------------------------------------


@pytest.fixture
def by_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a server whose segments are on hosts of their own."""
    monkeypatch.setattr(copy_source, "are_useful", lambda database: True)


def test_the_server_is_asked_whether_segments_have_hosts_of_their_own(data: PsycopgDatabase) -> None:
    apart = data.rows(
        sql(
            "select bool_or(s.hostname <> c.hostname) as apart from gp_segment_configuration s"
            " join gp_segment_configuration c on c.content = -1 where s.content >= 0"
        )
    )
    assert endpoints.are_useful(data) is apart[0]["apart"]


def lets_in(source: CopySource) -> None:
    """Skip where segments take no retrieve sessions, as those that are started with gp_role=execute on version 6."""
    list(source.read(None))
    if not source._by_endpoint:
        pytest.skip("the segments of this server let no retrieve session in")


@pytest.mark.usefixtures("by_endpoint")
def test_rows_come_from_the_segment_itself(data: PsycopgDatabase, opened: Callable[..., CopySource]) -> None:
    lets_in(opened(0))
    for segment in range(SEGMENTS):
        source = opened(segment)
        for order in ([9, 3, 0, 7], [9, 3, 0, 7], [1, 2], list(range(10))):  # the same again: from the reader ahead
            assert plain(source.read(order)) == [through(data, segment)[number] for number in order]
        assert source._by_endpoint


@pytest.mark.usefixtures("by_endpoint")
def test_a_read_from_the_segment_may_end_early(data: PsycopgDatabase, opened: Callable[..., CopySource]) -> None:
    source = opened(0)
    lets_in(source)
    for order in ([9, 3, 0, 7], [1, 2, 3, 4]):
        buffers = source.read(order)
        next(buffers)
        buffers.close()
    assert plain(source.read(None)) == through(data, 0)


@pytest.mark.usefixtures("by_endpoint")
def test_a_segment_that_lets_nobody_in_is_read_by_copy(
    data: PsycopgDatabase, opened: Callable[..., CopySource], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: List[Any] = []
    monkeypatch.setattr(endpoints, "_opened", lambda session, found: asked.extend(found))
    source = opened(2)
    for order in (None, [9, 3, 0, 7], None):
        numbers = range(10) if order is None else order
        assert plain(source.read(order)) == [through(data, 2)[number] for number in numbers]
    assert len(asked) == 1  # and not again
    assert not source._by_endpoint


# -- states ----------------------------------------------------------------------------------------


def test_states_stay_on_the_segment_that_they_were_sent_to(data: PsycopgDatabase) -> None:
    run(data, "create table state_like (part text, chunk integer, data bytea) distributed by (part, chunk)")
    data.rows(query("catalog", "make_stage"))
    taken = "explain insert into state_like select s.part, s.chunk, s.data from only pg_temp.cerebro_stage s"
    lines = [row["QUERY PLAN"] for row in data.rows(sql(taken))]
    assert [line for line in lines if "Motion" in line] == []
