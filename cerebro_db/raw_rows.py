"""Raw rows of a table as a model takes them: encoded in SQL a block at a time, decoded by NumPy.

The rows of a block come as one value per input, their ids as one array text that goes back into the
database as it is, so no row passes through Python by itself and memory does not grow with the table.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import prod
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from cerebro_db import names
from cerebro_db.columns import Column, Selection, describe, find_column, find_features, listed
from cerebro_db.database import Database, Row, one
from cerebro_db.datacheck import number
from cerebro_db.encoding import Encoded, array_of, encode, strip
from cerebro_db.engines import dialect
from cerebro_db.errors import DataError, UsageError
from cerebro_db.layout import DIST_KEY, Input, Layout
from cerebro_db.packed_layout import require_feature_kinds
from cerebro_db.sqltext import Fragment, TableName, fill, join, query, split_names

#: Encoded bytes of a block, small enough to stay in the processor's cache, and its rows.
BLOCK_BYTES = 1 << 20
MOST_ROWS, LEAST_ROWS = 8192, 128
#: Most rows that fit a page of 8 kB, with as many pointers to values out of line.
PAGE_ROWS = 291
#: A value of PostgreSQL ends at 1 GB; blocks stay below.
_MOST_BYTES = 512 << 20
#: Pages whose rows are counted to learn how many are in a page.
_SAMPLE_PAGES = 16
_OVERFLOWING = ("float8", "numeric")


@dataclass(frozen=True)
class Block:
    """Some rows: decoded inputs [rows, *shape] in native dtypes, and their ids as an array's text."""

    rows: int
    ids: str
    inputs: Tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Decoding:
    """How encoded values of raw rows become what a model takes."""

    layout: Layout
    #: The columns that stand for the training features, in order.
    features: Tuple[Column, ...]
    #: As in `encoding.Encoded`.
    wires: Tuple[Optional[str], ...]

    def inputs(self, rows: int, values: Sequence[Optional[bytes]]) -> Optional[Tuple[np.ndarray, ...]]:
        """Values of `rows` rows, one after the other, per input -> [rows, *shape]; None where some do not fit."""
        columns = dict(zip(self.layout.features, self.features))
        found: List[np.ndarray] = []
        for item, wire, data in zip(self.layout.inputs, self.wires, values):
            array = None if data is None else _decode(item, wire, data, rows, columns[item.sources[0]])
            if array is None:
                return None
            found.append(array)
        return tuple(found)

    @property
    def block_rows(self) -> int:
        """Rows of a block that stays in the processor's cache."""
        row_bytes = sum(item.row_bytes for item in self.layout.inputs)
        return max(LEAST_ROWS, min(MOST_ROWS, BLOCK_BYTES // max(1, row_bytes)))

    def to_json(self) -> Dict[str, Any]:
        return {"layout": self.layout.to_json(), "features": list(map(asdict, self.features)), "wires": self.wires}

    @classmethod
    def from_json(cls, raw: Dict[str, Any]) -> Decoding:
        features = tuple(Column(**{**item, "shape": _tuple(item["shape"])}) for item in raw["features"])
        return cls(Layout.from_json(raw["layout"]), features, tuple(raw["wires"]))


@dataclass(frozen=True)
class RawRows:
    """A table of raw rows, found and checked, one example per row."""

    table: TableName
    id: Column
    features: Tuple[Column, ...]
    layout: Layout
    encoded: Encoded

    @property
    def decoding(self) -> Decoding:
        return Decoding(self.layout, self.features, self.encoded.wires)

    @property
    def overflows(self) -> bool:
        """Whether a number may be beyond float32, which must be found before it is cast."""
        return any(column.base in _OVERFLOWING and column.kind == "numeric" for column in self.features)

    @property
    def id_value(self) -> Fragment:
        """The id as it travels: arrays as text, since an array of arrays would come back flat."""
        return Fragment(f"{self.id.sql()}::text") if self.id.is_array else self.id.sql()

    @property
    def ids_type(self) -> Fragment:
        """The SQL type of a block's ids."""
        return Fragment("text[]") if self.id.is_array else Fragment(array_of(self.id)[2:])

    @property
    def id_type(self) -> Fragment:
        """The id's SQL type as the catalog itself writes it."""
        return Fragment(self.id.sql_type.replace("%", "%%"))

    def blocks(self, database: Database) -> Iterator[Block]:
        """All rows once; raises DataError, naming columns and counts, for rows that do not fit.

        Numbers that may overflow are to be looked at before: `refuse_unfit`.
        """
        by_page = _page_step(database, self)
        sql = self._query("blocks_by_page" if by_page else "blocks_by_count")
        step = by_page or self.decoding.block_rows
        values: Dict[str, Any] = {**self.encoded.values, "step": step, "table": names.literal(self.table)}
        bound = {key: value for key, value in values.items() if f"%({key})s" in sql}
        for row in database.stream(sql, **bound):
            inputs = self._decoded(row)
            if inputs is None:
                raise unfit(database, self)
            yield Block(row["rows"], row["ids"], inputs)

    def _query(self, name: str) -> Fragment:
        parts, aggregates = self.encoded, []
        inputs = join(", ", (Fragment(f"{value} as x{k}") for k, value in enumerate(parts.inputs)))
        for k, (item, wire) in enumerate(zip(self.layout.inputs, parts.wires)):
            slot = Fragment(f"x{k}")
            value = Fragment(f"array_send(x.x{k})" if wire else f"x.x{k}")
            fits = f"x.x{k} is not null" if wire else f"octet_length(x.x{k}) = {item.row_bytes:d}"
            aggregates.append(query("prediction", "encoded", slot=slot, value=value, fits=Fragment(fits)))
        return query(
            "prediction", name, aggregates=join(", ", aggregates), inputs=inputs, id=self.id_value,
            inner=parts.inner, source=self.table.sql(), beside=parts.beside, joins=parts.joins,
        )

    def _decoded(self, row: Row) -> Optional[Tuple[np.ndarray, ...]]:
        """The inputs of a block, None when a row of it does not fit."""
        slots = [f"x{k}" for k in range(len(self.layout.inputs))]
        if any(row[f"{slot}_fits"] != row["rows"] for slot in slots):
            return None
        return self.decoding.inputs(row["rows"], [row[slot] for slot in slots])


def open_rows(
    database: Database, table: TableName, id_col: Optional[str], features: Optional[str], layout: Layout
) -> RawRows:
    """Find the id and the features of a table that a model is to predict.

    `features` maps to the training features by position; None means their names. Raises MissingError
    for a column that is not there, UsageError for a packed table or a column of another kind.
    """
    known = describe(database, table)
    if DIST_KEY in known:
        raise UsageError(
            f"test_table {table} is packed (it has a column {DIST_KEY}); give the raw rows, one example per "
            "row, or call madlib_mop_evaluate"
        )
    ids = split_names(id_col, "id_col")
    if len(ids) > 1:
        raise UsageError(f"id_col {id_col!r} names {len(ids)} columns, expected one")
    id_column = find_column(known, table, ids[0], "id_col")
    there = all(name in known for name in layout.features)
    others = tuple(name for name in known if name != id_column.name)
    star = layout.features if features is None or there else others
    columns = find_features(known, table, "*" if features is None else features, star)
    require_feature_kinds(layout, columns)
    for column, name in zip(columns, layout.features):
        _require_shape(column, next(item for item in layout.inputs if name in item.sources))
    # No label is read; the first feature stands in its place.
    encoded = encode(layout, Selection(columns[0], columns), with_target=False)
    return RawRows(table, id_column, columns, layout, encoded)


def unfit(database: Database, raw: RawRows, why: str = "") -> DataError:
    """The error for rows that do not fit; the one that counts them is raised at once."""
    refuse_unfit(database, raw)
    return DataError(why or f"table {raw.table} has rows whose features are not what the model was trained on")


def refuse_unfit(database: Database, raw: RawRows) -> None:
    """Count the values that the model cannot take; raises a DataError that names them, if any."""
    sql = query(
        "prediction", "unfit", table=raw.table.sql(),
        nulls=_each(raw, _null), sizes=_each(raw, _misfit), values=_each(raw, _bad_value),
    )
    row = one(database, sql)
    found: List[str] = []
    for column, nulls, sizes, values in zip(raw.features, row["nulls"], row["sizes"], row["values"]):
        told = {"NULL": nulls, "of another size": sizes, "with NaN, infinity or beyond float32": values}
        complaints = [f"{count} {what}" for what, count in told.items() if count]
        if complaints:
            found.append(f"{column.name!r} has {', '.join(complaints)}")
    if found:
        raise DataError(
            f"table {raw.table} cannot be predicted: of {row['rows']} rows, {listed(found)}; "
            f"the model was trained with nulls {raw.layout.nulls!r}, so fill or leave out such rows in a view"
        )


def _each(raw: RawRows, condition: Any) -> Fragment:
    template = Fragment("count(*) filter (where {condition})")
    items = {name: item for item in raw.layout.inputs for name in item.sources}
    pairs = [(column, items[name]) for column, name in zip(raw.features, raw.layout.features)]
    return join(", ", (fill(template, condition=condition(raw, column, item)) for column, item in pairs))


def _null(raw: RawRows, column: Column, item: Input) -> Fragment:
    if raw.layout.nulls == "impute" and item.kind != "array":
        return Fragment("false")
    return fill(Fragment("{c} is null"), c=column.sql())


def _misfit(raw: RawRows, column: Column, item: Input) -> Fragment:
    if item.kind != "array":
        return Fragment("false")
    measure = Fragment("cardinality({c})" if column.is_array else "octet_length({c})")
    return fill(Fragment(f"{measure} <> {prod(item.shape):d}"), c=column.sql())


def _bad_value(raw: RawRows, column: Column, item: Input) -> Fragment:
    if item.kind == "numeric":
        return fill(Fragment("{n} in ('NaN'::float8, 'Infinity', '-Infinity')"), n=number(column))
    if item.kind == "array" and column.is_array:
        return query("prediction", "unfit_elements", column=column.sql())
    return Fragment("false")


def _require_shape(column: Column, item: Input) -> None:
    if column.shape is not None and _core(column.shape) != _core(item.shape):
        raise UsageError(
            f"independent_varname states the shape {list(column.shape)} for column {column.name!r}, but the "
            f"training column {item.sources[0]!r} has {list(item.shape)}"
        )


def _core(shape: Sequence[int]) -> Tuple[int, ...]:
    """A shape without its ones, which move no element."""
    return tuple(size for size in shape if size != 1)


def _decode(item: Input, wire: Optional[str], data: bytes, rows: int, column: Column) -> Optional[np.ndarray]:
    """[rows, *shape] in a native dtype; None where a value is NULL, not finite or of another size."""
    dtype = np.dtype(item.dtype)
    if wire is not None:
        stripped = strip(data, rows, prod(item.shape), wire, "<f4")
        if stripped is None:
            return None
        if column.shape is None:
            _require_dimensions(item, data, column)
        data, dtype = stripped, np.dtype("<f4")
    array = np.frombuffer(data, dtype).astype(dtype.newbyteorder("=")).reshape((rows, *item.shape))
    return array if dtype.kind != "f" or np.isfinite(array).all() else None


def _require_dimensions(item: Input, data: bytes, column: Column) -> None:
    """Refuse arrays that hold the right number of elements in another order, as channels last."""
    dimensions = int.from_bytes(data[:4], "big")
    shape = tuple(int(size) for size in np.frombuffer(data, ">i4", 2 * dimensions, 12)[::2])
    if len(shape) > 1 and _core(shape) != _core(item.shape):
        raise DataError(
            f"column {column.name!r} has the shape {list(shape)}, but the training column "
            f"{item.sources[0]!r} has {list(item.shape)}; bring the arrays to that shape in a view"
        )


def _tuple(shape: Optional[Sequence[int]]) -> Optional[Tuple[int, ...]]:
    return None if shape is None else tuple(shape)


def _page_step(database: Database, raw: RawRows) -> Optional[int]:
    """Pages per block, None for a table that cannot be read by ranges of pages."""
    found = database.rows(dialect(database, "pages"), table=names.literal(raw.table))
    # As sent, an element takes up to 12 bytes with its length.
    row_bytes = 44 + sum(max(item.row_bytes, 12 * prod(item.shape)) for item in raw.layout.inputs)
    most = _MOST_BYTES // (PAGE_ROWS * row_bytes)
    if not found or not most:
        return None
    sampled = max(1, min(_SAMPLE_PAGES, int(found[0]["pages"])))
    counted = one(database, query("prediction", "first_rows", table=raw.table.sql()), pages=sampled)
    per_page = max(1, int(counted["rows"]) // sampled)
    return max(1, min(most, raw.decoding.block_rows // per_page))


