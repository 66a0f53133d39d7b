"""Strategy `export` on Greenplum: an export is reused while the table is unchanged on all segments, else made anew."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional

import pytest

from cerebro_db import exports
from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.errors import UsageError
from cerebro_db.export_files import ExportSource
from cerebro_db.packed import read_packed
from cerebro_db.packed_source import PackedSource
from cerebro_db.sqltext import TableName
from tests import runs
from tests.preprocessing import emptied, key_of, run
from tests.runs import sql

SEGMENTS = 3
COLUMNS = ["img", "label"]


@pytest.fixture
def db(gp_server: str, pg_module: PsycopgDatabase) -> PsycopgDatabase:
    """Tables packed, of three segments, and checked, on all of them."""
    emptied(pg_module)
    runs.make_images(pg_module, "images", 90)
    runs.pack(pg_module, "images", "packed", SEGMENTS, buffer_size=10)
    pg_module.rows(
        sql("select validation_preprocessor_dl('images', 'checked', 'label', 'img', 'packed', 20)"),
    )
    return pg_module


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CEREBRO_EXPORTS", str(tmp_path / "exports"))
    return tmp_path / "exports"


def opened(db: PsycopgDatabase, dsn: str, table: str, segment: Optional[int] = None) -> ExportSource:
    key, layout = key_of(db, segment, SEGMENTS), read_packed(db, "packed").layout
    return exports.open_export(db, partial(connect, dsn), layout, TableName.parse(table), key)


def plain(buffers: Iterator[Any]) -> List[Dict[str, bytes]]:
    return [{name: bytes(value) for name, value in buffer.items()} for buffer in buffers]


def through(db: PsycopgDatabase, table: str, segment: Optional[int] = None) -> List[Dict[str, bytes]]:
    return plain(PackedSource(db, COLUMNS, TableName.parse(table), key_of(db, segment, SEGMENTS)).read(None))


def versions(folder: Path) -> Dict[str, int]:
    return {str(path.parent.relative_to(folder)): path.stat().st_ino for path in folder.rglob("index.json")}


CHANGES = [
    "update {} set label = label where buffer_id = 3",
    "delete from {} where buffer_id = 3",
    "insert into {} select img, img_shape, label, label_shape, 100, __dist_key__ from {} where buffer_id = 1",
    "truncate {}",
    "create table other (like {}) distributed by (__dist_key__); insert into other select * from {}; drop table {}; "
    "alter table other rename to {}",
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("segment", [None, *range(SEGMENTS)])
def test_any_change_on_any_segment_makes_an_export_anew(
    db: PsycopgDatabase, pg_module_dsn: str, folder: Path, change: str, segment: Optional[int]
) -> None:
    opened(db, pg_module_dsn, "packed", segment).close()
    before = versions(folder)
    run(db, *change.replace("{}", "packed").split("; "))
    assert plain(opened(db, pg_module_dsn, "packed", segment).read(None)) == through(db, "packed", segment)
    assert not before.items() & versions(folder).items() or "create table" in change


def test_an_unchanged_table_is_not_copied_again(db: PsycopgDatabase, pg_module_dsn: str, folder: Path) -> None:
    for table in ("packed", "checked"):
        opened(db, pg_module_dsn, table).close()
    before = versions(folder)
    assert len(before) == 2
    for table in ("packed", "checked"):
        run(db, f"vacuum {table}", f"vacuum freeze {table}", f"analyze {table}", "checkpoint")
        opened(db, pg_module_dsn, table).close()
    assert versions(folder) == before


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ("update checked set label = label where buffer_id = 3", True),  # the bytes count where versions are not shown
        ("update checked set label = overlay(label placing '\\x02' from 1) where buffer_id = 3", False),
        ("delete from checked where buffer_id = 3", False),
    ],
)
def test_a_table_on_all_segments_is_told_by_its_bytes(
    db: PsycopgDatabase, pg_module_dsn: str, folder: Path, change: str, same: bool
) -> None:
    opened(db, pg_module_dsn, "checked").close()
    before = versions(folder)
    run(db, change)
    found = opened(db, pg_module_dsn, "checked")
    assert plain(found.read(None)) == through(db, "checked")
    assert (versions(folder) == before) is same


def test_the_cluster_is_told_by_its_coordinator(db: PsycopgDatabase, pg_module_dsn: str, folder: Path) -> None:
    opened(db, pg_module_dsn, "packed", 1).close()
    facts = "select oid::bigint as db, 'packed'::regclass::oid::bigint as t, cerebro_private.system_identifier() as id"
    (row,) = db.rows(sql(f"{facts} from pg_database where datname = current_database()"))
    (place,) = (path for path in folder.iterdir() if path.is_dir())
    assert place.name == f"{row['id']}-{row['db']}-{row['t']}-{key_of(db, 1, SEGMENTS)}"


@pytest.mark.parametrize("storage", ["appendonly = true", "appendonly = true, orientation = column"])
def test_append_only_tables_are_refused(db: PsycopgDatabase, pg_module_dsn: str, storage: str) -> None:
    run(db, f"create table other with ({storage}) as select * from packed distributed by (__dist_key__)")
    with pytest.raises(UsageError, match="table other is no ordinary table, expected one as training_preprocessor"):
        opened(db, pg_module_dsn, "other")
