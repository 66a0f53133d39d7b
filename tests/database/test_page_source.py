"""Buffers read from the server's files are those read through the server, or are refused with the reason."""

from __future__ import annotations

import hashlib
import tracemalloc
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence

import psycopg2
import pytest

from cerebro_db.batches import SegmentRows
from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.engines import dialect, stored
from cerebro_db.errors import MissingError, RunError, SetupError, UsageError
from cerebro_db.packed import read_packed
from cerebro_db.packed_source import PackedSource
from cerebro_db.page_source import PageSource
from cerebro_db.sqltext import Fragment, TableName
from tests.preprocessing import emptied, key_of, run, train_by_python

IMAGES = "select i as id, i % 3 as y, decode(repeat(md5(i::text), {n}), 'hex') as img from generate_series(1, {rows}) i"


@pytest.fixture
def db(pg_module: PsycopgDatabase) -> PsycopgDatabase:
    return emptied(pg_module)


def images(db: PsycopgDatabase, rows: int = 600, repeats: int = 49, **options: Any) -> TableName:
    """A packed table `packed` of images of 16 * repeats bytes."""
    run(db, "create table raw as " + IMAGES.format(n=repeats, rows=rows))
    train_by_python(db, "raw", "packed", "y", "img", buffer_size=40, **options)
    return TableName.parse("packed")


def both(db: PsycopgDatabase, table: TableName, segment: Optional[int] = None) -> List[Dict[str, bytes]]:
    """Every buffer of a packed table; asserts that both ways give the same."""
    columns = [column.column for column in read_packed(db, str(table)).layout.columns]
    through, past = (source(db, columns, table, key_of(db, segment)) for source in (PackedSource, PageSource))
    assert list(past.rows) == list(through.rows)
    found = plain(past.read(None))
    assert found == plain(through.read(None))
    return found


def plain(buffers: Iterator[Any]) -> List[Dict[str, bytes]]:
    return [{name: bytes(value) for name, value in buffer.items()} for buffer in buffers]


def settle(db: PsycopgDatabase) -> None:
    run(db, "vacuum packed")


# -- the same bytes --------------------------------------------------------------------------------


@pytest.mark.parametrize("segment", [None, 0, 1])
def test_images(db: PsycopgDatabase, segment: Optional[int]) -> None:
    table = images(db)
    found = both(db, table, segment)
    assert len(found) == (16 if segment is None else 8)
    assert sum(len(buffer["img"]) for buffer in found) == 784 * (600 if segment is None else 300)


def test_buffers_come_in_the_order_asked_for_and_belong_to_the_caller(db: PsycopgDatabase) -> None:
    table = images(db)
    source = PageSource(db, ["img", "y"], table, key_of(db, 1))
    kept = list(source.read([5, 0, 5, 7]))
    every = plain(PackedSource(db, ["img", "y"], table, key_of(db, 1)).read(None))
    assert plain(iter(kept)) == [every[5], every[0], every[5], every[7]]
    assert list(source.read([])) == []


def test_a_segment_without_rows(db: PsycopgDatabase) -> None:
    table = images(db)
    source = PageSource(db, ["img", "y"], table, 99)
    assert list(source.rows) == []
    assert list(source.read(None)) == []


def test_numbers_words_arrays_and_vectors(db: PsycopgDatabase) -> None:
    run(
        db,
        "create table raw as select i::float8 / 7 as a, i as b, 'w' || i % 5 as w, (i % 2 = 0) as f"
        ", array[i % 128, i % 7, 3]::smallint[] as v, array[i / 3.0, 1]::float8[] as y from generate_series(1, 3000) i",
    )
    train_by_python(db, "raw", "packed", "y", "a, b, w, f, v", buffer_size=300)
    found = both(db, TableName.parse("packed"))
    assert set(found[0]) == {"numeric_features", "categorical_features", "v", "y"}


def test_small_buffers_lie_inline(db: PsycopgDatabase) -> None:
    run(db, "create table raw as select i as a, i % 2 as y from generate_series(1, 40) i")
    train_by_python(db, "raw", "packed", "y", "a", buffer_size=4)
    assert [len(buffer["y"]) for buffer in both(db, TableName.parse("packed"))] == [16] * 10


def test_shapes_that_are_toasted_too(db: PsycopgDatabase) -> None:
    columns = ", ".join(f"array[i, {n}]::integer[] as v{n}" for n in range(60))
    run(db, f"create table raw as select i % 2 as y, {columns} from generate_series(1, 90) i")
    train_by_python(db, "raw", "packed", "y", "*", buffer_size=9)
    assert len(both(db, TableName.parse("packed"))) == 10


def test_after_changes_with_and_without_vacuum(db: PsycopgDatabase) -> None:
    table = images(db)
    run(db, "delete from packed where buffer_id in (0, 3, 9)")
    assert len(both(db, table)) == 13
    run(db, "update packed set img = img || '\\x00' where buffer_id in (4, 5)")
    both(db, table)
    settle(db)
    both(db, table)
    run(db, "insert into packed select img || '\\x01', img_shape, y, y_shape, buffer_id + 100, 0 from packed")
    run(db, "update packed set y = y || '\\x00', __dist_key__ = 1 where buffer_id < 106")
    settle(db)
    assert len(both(db, table)) == 26
    run(db, "alter table packed add note text default 'n', drop column img_shape")
    assert plain(PageSource(db, ["y", "img"], table, key_of(db, 1)).read(None)) == plain(
        PackedSource(db, ["y", "img"], table, key_of(db, 1)).read(None)
    )


def test_a_transaction_that_is_open_or_rolled_back_is_not_seen(db: PsycopgDatabase, pg_module_dsn: str) -> None:
    table = images(db)
    before = both(db, table)
    with connect(pg_module_dsn) as other:
        run(other, "begin", "insert into packed select img, img_shape, y, y_shape, buffer_id + 100, 0 from packed")
        assert both(db, table) == before
        run(other, "rollback")
    assert both(db, table) == before
    run(db, "begin", "delete from packed", "rollback")
    assert both(db, table) == before


def test_segment_rows_give_the_same_batches(db: PsycopgDatabase) -> None:
    table = images(db)
    layout = read_packed(db, "packed").layout
    key = key_of(db, 0)
    columns = [column.column for column in layout.columns]
    through, past = (
        [
            (inputs[0].numpy().tobytes(), target.numpy().tobytes())
            for inputs, target in SegmentRows(source(db, columns, table, key), layout, 0, 200_000).epoch((1, 2, 0), 37)
        ]
        for source in (PackedSource, PageSource)
    )
    assert len(past) == 9
    assert past == through


def test_the_same_code_runs_in_a_backend(db: PsycopgDatabase) -> None:
    table = images(db)
    run(
        db,
        "create function public.past() returns bytea[] language plpython3u as $$\n"
        "from cerebro_db.page_source import PageSource\n"
        "from cerebro_db.server.plpy_database import PlpyDatabase\n"
        "from cerebro_db.sqltext import TableName\n"
        "source = PageSource(PlpyDatabase(plpy), ('img', 'y'), TableName.parse('packed'), None)\n"
        "return [bytes(buffer['img']) for buffer in source.read(None)]\n$$",
    )
    found = db.rows(Fragment("select public.past() as images"))[0]["images"]
    assert found == [buffer["img"] for buffer in both(db, table)]


def test_memory_holds_a_buffer_not_the_table(db: PsycopgDatabase) -> None:
    table = images(db, rows=4000, repeats=200)
    source = PageSource(db, ["img", "y"], table, None)
    tracemalloc.start()
    try:
        total = sum(len(buffer["img"]) for buffer in source.read(None))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert total == 4000 * 3200
    assert peak < 2_000_000


# -- refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("update packed set img = img || '\\x00'; checkpoint", "it is deleted or updated"),
        ("delete from packed; checkpoint", "it is deleted or updated"),
        ("drop table packed, packed_summary; checkpoint", "is gone: the table was dropped or rewritten"),
        ("truncate packed; checkpoint", "is gone: the table was dropped or rewritten"),
        ("drop table packed, packed_summary", "truncated or dropped"),
    ],
)  # fmt: skip
def test_a_change_after_opening_is_told(db: PsycopgDatabase, change: str, message: str) -> None:
    source = PageSource(db, ["img", "y"], images(db), None)
    for statement in change.split("; "):
        run(db, statement)
    with pytest.raises(RunError, match=message):
        list(source.read(None))


def test_a_vacuum_after_a_change_is_told(db: PsycopgDatabase) -> None:
    source = PageSource(db, ["img", "y"], images(db), None)
    run(db, "update packed set img = img || '\\x00'", "vacuum packed", "checkpoint")
    with pytest.raises(RunError, match="changed after it was looked up"):
        list(source.read(None))


def test_a_delete_that_is_not_decided_is_refused(db: PsycopgDatabase, pg_module_dsn: str) -> None:
    table = images(db)
    with connect(pg_module_dsn) as other:
        run(other, "begin", "delete from packed where buffer_id = 1")
        with pytest.raises(RunError, match="it is deleted or updated"):
            list(PageSource(db, ["img", "y"], table, None).read(None))
        run(other, "rollback", "begin", "select 1 from packed for update")
        both(db, table)
        run(other, "rollback")


def test_compressed_values_are_refused_by_name(db: PsycopgDatabase) -> None:
    table = images(db)
    run(db, "alter table packed alter img set storage main")
    if db.rows(COMPRESSIONS):  # one may be chosen
        run(db, "alter table packed alter img set compression pglz")
    run(db, "update packed set img = img || '\\x00'", "update packed set img = repeat('a', 9999)::bytea")
    with pytest.raises(UsageError, match="column 'img' .* compressed by pglz, expected storage external"):
        list(PageSource(db, ["img", "y"], table, None).read(None))


@pytest.mark.parametrize(
    ("statement", "columns", "error", "message"),
    [
        ("create temp table t as select * from packed", ["img"], UsageError, "no ordinary heap table"),
        ("create unlogged table t as select * from packed", ["img"], UsageError, "t is unlogged, .* to set logged"),
        pytest.param("create table t (like packed) partition by list (buffer_id)", ["img"], UsageError,
                     "no ordinary heap table", marks=pytest.mark.postgresql("Greenplum 6 says partitions otherwise")),
        ("create table t as select * from packed", ["imgs"], MissingError, "'imgs' does not exist in table t .*'img'"),
        ("create table t as select * from packed", ["img_shape"], UsageError, "type integer.., expected bytea"),
        ("create table t as select * from packed; update t set img = null", ["img"], UsageError, "'img' .* is NULL"),
    ],
)  # fmt: skip
def test_other_tables_are_refused(
    db: PsycopgDatabase, statement: str, columns: Sequence[str], error: type, message: str
) -> None:
    images(db, rows=60)
    run(db, "drop table if exists t")  # a temporary one outlives the schema
    for each in statement.split("; "):
        run(db, each)
    with pytest.raises(error, match=message):
        list(PageSource(db, columns, TableName.parse("t"), None).read(None))


def test_a_plain_user_reads_what_it_may_read_and_nothing_else(pg: PsycopgDatabase, role: Callable[..., Any]) -> None:
    table = images(pg)
    alice = role("alice")
    run(pg, "grant select on packed, packed_summary to public")
    assert len(list(PageSource(alice(), ["img", "y"], table, None).read(None))) == 16
    run(pg, "revoke select on packed from public", f'grant select (img, buffer_id) on packed to "{alice.name}"')
    with pytest.raises(UsageError, match="may not be read by this role"):
        PageSource(alice(), ["img", "y"], table, None)


@pytest.mark.postgresql("Greenplum 6 has no row security")
def test_row_security_is_refused(pg: PsycopgDatabase, role: Callable[..., Any]) -> None:
    table = images(pg)
    run(pg, "grant select on packed to public", "alter table packed enable row level security")
    with pytest.raises(UsageError, match="has row security"):
        PageSource(role("alice")(), ["img", "y"], table, None)


COMPRESSIONS = Fragment("select enumvals from pg_settings where name = 'default_toast_compression'")
FACTS = "select data_directory from cerebro_private.page_facts('{}'::regclass)"
WRITE = "select cerebro_private.write_pages('{}'::regclass)"


def told(session: PsycopgDatabase, table: str = "public.packed") -> bool:
    """Whether a session is told where the servers keep a table, and may have them write it."""
    directories = {row["data_directory"] for row in session.rows(Fragment(FACTS.format(table)))}
    if directories == {None}:
        with pytest.raises(psycopg2.errors.InsufficientPrivilege, match="not every row of table"):
            session.rows(Fragment(WRITE.format(table)))
        return False
    session.rows(Fragment(WRITE.format(table)))
    return all(directory.startswith("/") for directory in directories)


def test_who_may_not_read_a_table_is_not_told_where_it_lies(pg: PsycopgDatabase, role: Callable[..., Any]) -> None:
    images(pg)
    alice = role("alice")()
    for forbid in ("select 1", "grant select (img) on packed to public"):
        run(pg, forbid)
        assert not told(alice)
        assert not told(alice, "pg_catalog.pg_authid")
    run(pg, "grant select on packed to public")
    assert told(alice)


@pytest.mark.postgresql("Greenplum 6 has no row security")
def test_who_may_not_read_some_rows_is_not_told_where_they_lie(pg: PsycopgDatabase, role: Callable[..., Any]) -> None:
    images(pg)
    alice = role("alice")
    run(pg, "grant select on packed to public", "alter table packed enable row level security")
    assert not told(alice())
    run(pg, f'alter table packed owner to "{alice.name}"')
    assert told(alice())
    run(pg, "alter table packed force row level security")
    assert not told(alice())


def test_rights_of_the_caller_count_inside_others_functions(pg: PsycopgDatabase, role: Callable[..., Any]) -> None:
    images(pg)
    alice = role("alice")
    run(pg, f'set session authorization "{alice.name}"')
    assert not told(pg)
    run(pg, "reset session authorization", f'set role "{alice.name}"')
    assert not told(pg)
    run(pg, "reset role")
    assert told(pg)


def test_an_installer_without_rights_is_named_with_the_remedy(pg: PsycopgDatabase, role: Callable[..., Any]) -> None:
    table = images(pg)
    bob = role("bob")
    for function in ("page_facts", "write_pages"):
        run(pg, f'grant create on schema cerebro_private to "{bob.name}"')
        run(pg, f'alter function cerebro_private.{function}(oid) owner to "{bob.name}"')
    with pytest.raises(SetupError, match="CHECKPOINT, which role 'bob.*superuser run 'cerebro-db install'"):
        PageSource(pg, ["img", "y"], table, None)
    if pg.connection.server_version >= 150000:
        run(pg, f'grant pg_checkpoint to "{bob.name}"')
        with pytest.raises(SetupError, match="data_directory, which role 'bob.*superuser run 'cerebro-db install'"):
            PageSource(pg, ["img", "y"], table, None)


def test_a_vacuum_that_freezes_changes_nothing(db: PsycopgDatabase) -> None:
    table = images(db)
    source = PageSource(db, ["img", "y"], table, None)
    run(db, "vacuum freeze packed", "checkpoint")
    assert plain(source.read(None)) == both(db, table)


@pytest.mark.postgresql("Greenplum has one compression of values, see above")
@pytest.mark.parametrize("method", ["pglz", "lz4"])
def test_each_compression_is_refused_by_its_name_and_the_remedy(db: PsycopgDatabase, method: str) -> None:
    table = images(db)
    known = db.rows(COMPRESSIONS)
    if not known or method not in known[0]["enumvals"]:
        pytest.skip(f"this server has no {method}")
    run(
        db,
        "alter table packed alter img set storage extended",
        f"alter table packed alter img set compression {method}",
    )
    run(db, "update packed set img = repeat(md5(buffer_id::text), 3000)::bytea")
    with pytest.raises(UsageError, match=f"compressed by {method}, expected storage external: pack the table again"):
        list(PageSource(db, ["img", "y"], table, None).read(None))


@pytest.mark.slow
def test_a_table_of_more_than_one_file(db: PsycopgDatabase) -> None:
    form = db.rows(dialect(db, "page_format"))[0]
    per_file, key = form["block_size"] * form["segment_blocks"], key_of(db, 1)
    value, rows = 2_400_000, per_file // 2_400_000 + 20
    run(
        db,
        "create table packed (img bytea, img_shape integer[], buffer_id integer, __dist_key__ integer)"
        + stored(db, "__dist_key__"),
        "alter table packed alter img set storage external",
        f"insert into packed select decode(repeat(md5(i::text), {value // 16}), 'hex'), array[1, {value}], i, {key}"
        f" from generate_series(1, {rows}) i",
    )
    toast = "select pg_relation_size(reltoastrelid) as n from pg_class where oid = 'packed'::regclass"
    assert db.rows(Fragment(toast))[0]["n"] > per_file
    through = db.rows(Fragment("select md5(img) as m from packed order by buffer_id"))
    past = PageSource(db, ["img"], TableName.parse("packed"), key).read(None)
    assert [hashlib.md5(buffer["img"]).hexdigest() for buffer in past] == [row["m"] for row in through]
