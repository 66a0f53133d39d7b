"""Strategy `direct` on Greenplum: the files of the primary that holds a segment, or a refusal that says why."""

from __future__ import annotations

from functools import partial
from typing import Any, Dict, Iterator, List, Optional

import pytest

from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.copy_source import CopySource
from cerebro_db.engines import dialect
from cerebro_db.errors import SetupError, UsageError
from cerebro_db.packed_source import PackedSource
from cerebro_db.page_source import PageSource, open_pages
from cerebro_db.sqltext import TableName
from tests import runs
from tests.preprocessing import emptied, key_of, run
from tests.runs import sql

SEGMENTS = 3
COLUMNS = ["img", "label"]


@pytest.fixture
def db(gp_server: str, pg_module: PsycopgDatabase) -> PsycopgDatabase:
    """Tables packed, of three segments with values in many chunks, and checked, on all of them."""
    emptied(pg_module)
    runs.make_images(pg_module, "images", 90, side=64)
    runs.pack(pg_module, "images", "packed", SEGMENTS, buffer_size=10)
    pg_module.rows(sql("select validation_preprocessor_dl('images', 'checked', 'label', 'img', 'packed')"))
    return pg_module


def plain(buffers: Iterator[Any]) -> List[Dict[str, bytes]]:
    return [{name: bytes(value) for name, value in buffer.items()} for buffer in buffers]


def both(db: PsycopgDatabase, segment: Optional[int], table: str = "packed") -> PageSource:
    """Asserts that both ways give the same."""
    key = key_of(db, segment, SEGMENTS)
    through, past = (kind(db, COLUMNS, TableName.parse(table), key) for kind in (PackedSource, PageSource))
    assert list(past.rows) == list(through.rows)
    assert plain(past.read(None)) == plain(through.read(None))
    order = list(reversed(range(len(past.rows))))
    assert plain(past.read(order)) == plain(through.read(order))
    assert isinstance(past, PageSource)
    return past


def test_each_segment_is_read_from_the_files_of_its_primary(db: PsycopgDatabase) -> None:
    for segment in range(SEGMENTS):
        assert list(both(db, segment)._readers) == [segment]
    assert sorted(both(db, None)._readers) == list(range(SEGMENTS))


def test_facts_that_the_server_does_not_tell_are_those_of_its_files(db: PsycopgDatabase) -> None:
    """Of 32 KB pages four chunks fill one, headers and all: 8140 bytes each."""
    form = db.rows(dialect(db, "page_format"))[0]
    (reader,) = both(db, 1)._readers.values()
    assert reader._toast is not None
    chunk = reader._toast._form.chunk_size
    room = form["block_size"] - 24 - 4 * 4
    assert (form["max_align"], chunk) == (8, room // 4 // 8 * 8 - 24 - 12)


def test_two_segments_on_one_primary(db: PsycopgDatabase) -> None:
    runs.pack(db, "images", "six", 6, buffer_size=5)
    for segment in range(6):
        source = PageSource(db, COLUMNS, TableName.parse("six"), key_of(db, segment, 6))
        assert list(source._readers) == [segment % SEGMENTS]
        through = PackedSource(db, COLUMNS, TableName.parse("six"), key_of(db, segment, 6))
        assert plain(source.read(None)) == plain(through.read(None))


def test_rewritten_tables_and_failed_deletes(db: PsycopgDatabase) -> None:
    run(db, "vacuum full packed")
    both(db, 0)
    run(db, "begin", "delete from packed", "rollback")
    both(db, 0)
    both(db, None)
    run(db, "update packed set label = label || '\\x00'", "vacuum packed")
    both(db, 2)


def test_a_replicated_table_comes_through_the_server_and_is_kept(db: PsycopgDatabase, pg_module_dsn: str) -> None:
    table = TableName.parse("checked")
    source = open_pages(db, partial(connect, pg_module_dsn), COLUMNS, table, None)
    assert isinstance(source, CopySource)
    assert source.keeps_rows
    assert plain(source.read(None)) == plain(PackedSource(db, COLUMNS, table, None).read(None))
    with pytest.raises(UsageError, match="table checked is no ordinary heap table on disk"):
        PageSource(db, COLUMNS, table, None)
    past = open_pages(db, partial(connect, pg_module_dsn), COLUMNS, TableName.parse("packed"), key_of(db, 0, SEGMENTS))
    assert isinstance(past, PageSource)


@pytest.mark.parametrize(
    ("storage", "method"), [("appendonly = true", "ao_row"), ("appendonly = true, orientation = column", "ao_column")]
)
def test_append_only_tables_are_refused_by_name(db: PsycopgDatabase, storage: str, method: str) -> None:
    run(db, f"create table other with ({storage}) as select * from packed distributed by (__dist_key__)")
    with pytest.raises(UsageError, match=rf"table other is append-only \({method}\), expected a heap: pack it again"):
        PageSource(db, COLUMNS, TableName.parse("other"), None)


def test_a_segment_on_another_host_is_named_with_the_remedy(pg: PsycopgDatabase, gp_server: str) -> None:
    runs.make_images(pg, "images", 9)
    runs.pack(pg, "images", "packed", SEGMENTS)
    (was,) = pg.rows(sql("select prosrc from pg_proc where oid = 'cerebro_private.instances()'::regprocedure"))
    elsewhere = was["prosrc"].replace("c.hostname::text, c.datadir::text", "'sdw1'::text, '/data/p' || c.content")
    assert elsewhere != was["prosrc"]
    run(
        pg,
        "create or replace function cerebro_private.instances()"
        " returns table (content integer, hostname text, data_directory text, identifier bigint)"
        f" language plpgsql stable execute on initplan as $body${elsewhere}$body$",
    )
    where = "data directory '/data/p1' of segment 1, which is on host 'sdw1', is not on this machine"
    with pytest.raises(SetupError, match=f"{where}.*runs on the host of the files; use another strategy"):
        PageSource(pg, COLUMNS, TableName.parse("packed"), key_of(pg, 1, SEGMENTS))
