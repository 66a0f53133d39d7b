"""MB/s of reading a packed table past the server, beside the two ways through it, all warm and in one run."""

from __future__ import annotations

import time
from functools import partial
from typing import Callable, Dict, Iterator, List

from cerebro_db.batches import Source
from cerebro_db.client import PsycopgDatabase
from cerebro_db.packed_source import PackedSource
from cerebro_db.page_source import PageSource
from cerebro_db.sqltext import Fragment, TableName
from experiments.bench import data
from experiments.bench.measure import Measure

SEGMENTS = 4
#: Copies of the 60,000 training images, of 784 bytes each.
COPIES = 8
#: The best of so many tries counts; the ways take turns.
TRIES = 5
#: What the pages must reach [MB/s].
BAR = 1000

_COLUMNS = ("img", "label")
_RAW = Fragment(
    "create table pages_raw as select img, label from fashion_train, generate_series(1, %(copies)s::integer)"
)
_IN_SERVER = Fragment(
    """create or replace function pages_in_server() returns float8 language plpython3u as $python$
import time
from cerebro_db.packed_source import PackedSource
from cerebro_db.server.plpy_database import PlpyDatabase
from cerebro_db.sqltext import TableName
started = time.perf_counter()
source = PackedSource(PlpyDatabase(plpy), ("img", "label"), TableName.parse("pages_packed"), None)
total = sum(len(value) for buffer in source.read(None) for value in buffer.values())
return total / (time.perf_counter() - started) / 1e6
$python$"""
)


def measure(db: PsycopgDatabase) -> Iterator[Measure]:
    db.rows(_RAW, copies=COPIES)
    data.pack_images(db, "pages_raw", "pages_packed", SEGMENTS)
    db.script(Fragment("drop table pages_raw"))
    db.script(_IN_SERVER)
    table = TableName.parse("pages_packed")
    whole = PageSource(db, _COLUMNS, table, None)
    best = _best(
        {
            "pages": lambda: _rate(lambda: whole),
            "segment": lambda: _rate(partial(PageSource, db, _COLUMNS, table, 1)),
            "client": lambda: _rate(partial(PackedSource, db, _COLUMNS, table, None)),
            "server": lambda: float(db.rows(Fragment("select pages_in_server() as rate"))[0]["rate"]),
        }
    )
    db.script(Fragment("drop function pages_in_server(); drop table pages_packed, pages_packed_summary"))
    yield Measure("images read from pages, opened before", best["pages"], "MB/s", BAR, "higher")
    yield Measure("a segment of 4 from pages, opening and CHECKPOINT included", best["segment"], "MB/s", None, "higher")
    yield Measure("images read through psycopg2", best["client"], "MB/s", None, "higher")
    yield Measure("images read through plpy.cursor in a backend", best["server"], "MB/s", None, "higher")
    yield Measure("pages over psycopg2", best["pages"] / best["client"], "ratio", 5, "higher")


def _best(ways: Dict[str, Callable[[], float]]) -> Dict[str, float]:
    rates: Dict[str, List[float]] = {name: [] for name in ways}
    for _ in range(TRIES):
        for name, way in ways.items():
            rates[name].append(way())
    return {name: max(found) for name, found in rates.items()}


def _rate(opened: Callable[[], Source]) -> float:
    started = time.perf_counter()
    total = sum(len(value) for buffer in opened().read(None) for value in buffer.values())
    return total / (time.perf_counter() - started) / 1e6
