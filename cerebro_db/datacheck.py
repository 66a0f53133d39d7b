"""What is wrong with the rows of a table, found in one scan before anything is created."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterable, List, Sequence, Tuple

from cerebro_db.columns import Column, Selection, listed
from cerebro_db.database import Database, Row, one
from cerebro_db.engines import dialect
from cerebro_db.errors import DataError
from cerebro_db.row_places import Places
from cerebro_db.sqltext import Fragment, TableName, fill, join, query

#: What `size` gives for an array or bytea without elements.
EMPTY = "empty"
_DROP = 'the option {"nulls": "drop"} leaves out rows with NULL'
_IMPUTE = '{"nulls": "impute"} puts the mean in numeric features and a category of its own in others'


@dataclass(frozen=True)
class Source:
    """The rows that a packing reads: a table, its columns, and which of its rows are kept."""

    #: As the user named it.
    table: TableName
    selection: Selection
    #: "refuse", "drop" or "impute".
    nulls: str
    #: Where its rows are read.
    places: Places

    @property
    def keep(self) -> Fragment:
        """The condition on a row: with "drop" no column of it may be NULL."""
        if self.nulls != "drop":
            return Fragment("true")
        template = Fragment("{c} is not null")
        return join(" and ", (fill(template, c=column.sql()) for column in self.selection.all))

    def query(self, name: str, **parts: Fragment) -> Fragment:
        return query("packing", name, **self._parts, **parts)

    def dialect(self, database: Database, name: str, **parts: Fragment) -> Fragment:
        return dialect(database, name, **self._parts, **parts)

    def number(self, database: Database) -> Fragment:
        """SQL for the random number of a row, from 0 to below 1; the value `shuffle_seed` may seed it."""
        return dialect(database, "shuffle_number", part=self.places.part)

    @property
    def _parts(self) -> Dict[str, Fragment]:
        return {"table": self.places.table.sql(), "keep": self.keep}


@dataclass(frozen=True)
class Facts:
    """What the check learned about the rows that are kept."""

    rows: int
    #: Rows left out because of a NULL (policy "drop").
    dropped: int
    #: NULLs per column, over all rows of the table; columns without any are absent.
    nulls: Dict[str, int]
    #: Mean and standard deviation of numeric columns over their non-NULL rows.
    mean: Dict[str, float]
    deviation: Dict[str, float]
    #: Sizes of one row of arrays, in their own dimensions, and of bytea ([bytes]).
    dims: Dict[str, Tuple[int, ...]]


@dataclass
class _Problems:
    """Complaints per column, and the remedies that fit them."""

    found: Dict[str, List[str]] = field(default_factory=dict)
    remedies: List[str] = field(default_factory=list)

    def add(self, column: Column, complaint: str, *remedies: str) -> None:
        self.found.setdefault(column.name, []).append(complaint)
        self.remedies += [remedy for remedy in remedies if remedy not in self.remedies]

    def raise_if_any(self, table: TableName) -> None:
        if self.found:
            shown = [f"{name!r} has {' and '.join(told)}" for name, told in self.found.items()]
            raise DataError(f"table {table} cannot be packed: {listed(shown)}; {'; '.join(self.remedies)}")


def check(database: Database, source: Source) -> Facts:
    """Look at every value once; raises one DataError that names all columns unfit for training."""
    dropped, nulls = _dropped(database, source)
    row = one(database, _probe(source))
    _check_rows(source, int(row["rows"]), dropped)
    facts = _facts(source, row, dropped, nulls)
    problems = _Problems()
    _check_nulls(source, facts, problems)
    _check_sizes(database, source, row, problems)
    _check_numbers(database, source, facts, problems)
    if problems.found:
        _check_elements(database, source, problems)
    problems.raise_if_any(source.table)
    return facts


def refuse_elements(database: Database, source: Source) -> None:
    """Raise the DataError for arrays that hold NULL, NaN or the like; for packing, which saw them."""
    problems = _Problems()
    _check_elements(database, source, problems)
    problems.raise_if_any(source.table)


def size(column: Column) -> Fragment:
    """SQL for the size of a value as text, the same for equal shapes; NULL for NULL."""
    measured = "nullif(octet_length({c}), 0)::text" if column.kind == "bytea" else "array_dims({c})"
    template = f"case when {{c}} is not null then coalesce({measured}, 'empty') end collate \"C\""
    return fill(Fragment(template), c=column.sql())


def parse_size(text: str) -> Tuple[int, ...]:
    """`[1:28][1:28]` -> (28, 28); `784` -> (784,)."""
    bounds = re.findall(r"\[(-?\d+):(-?\d+)\]", text)
    return tuple(int(high) - int(low) + 1 for low, high in bounds) if bounds else (int(text),)


def number(column: Column) -> Fragment:
    """SQL for a number as float8, NaN where a float32 cannot hold it."""
    template = "{c}::float8"
    if column.base in ("float8", "numeric"):
        template = "case when abs({c}) > 3.4028235e38 then 'NaN'::float8 else {c}::float8 end"
    return fill(Fragment(template), c=column.sql())


def _dropped(database: Database, source: Source) -> Tuple[int, Dict[str, int]]:
    if source.nulls != "drop":
        return 0, {}
    counts = join(", ", (fill(Fragment("count({c})"), c=column.sql()) for column in source.selection.all))
    row = one(database, source.query("count_nulls", counts=counts))
    return row["rows"] - row["kept"], _missing(source, row)


def _missing(source: Source, row: Row) -> Dict[str, int]:
    pairs = zip(source.selection.all, row["counts"])
    return {column.name: row["rows"] - count for column, count in pairs if count < row["rows"]}


def _numbers(source: Source) -> List[Column]:
    label = source.selection.label
    return [*source.selection.of("numeric"), *([label] if label.is_real else [])]


def _sized(source: Source) -> List[Column]:
    label = source.selection.label
    return [*source.selection.tensors, *([label] if label.is_array else [])]


def _probe(source: Source) -> Fragment:
    places = {column.name: Fragment(f"s.v{i}") for i, column in enumerate(source.selection.all)}
    numbers, sized = {c.name for c in _numbers(source)}, {c.name for c in _sized(source)}

    def value(column: Column) -> Fragment:
        if column.name in numbers:
            return number(column)
        return size(column) if column.name in sized else column.sql()

    def each(template: str, columns: Iterable[Column]) -> Fragment:
        return join(", ", (fill(Fragment(template), v=places[column.name]) for column in columns))

    probes = (Fragment(f"{value(column)} as v{i}") for i, column in enumerate(source.selection.all))
    return source.query(
        "probe",
        probes=join(", ", probes),
        counts=each("count({v})", source.selection.all),
        means=each("avg({v})", _numbers(source)),
        deviations=each("stddev_pop({v})", _numbers(source)),
        smallest=each("min({v})", _sized(source)),
        largest=each("max({v})", _sized(source)),
    )


def _check_rows(source: Source, rows: int, dropped: int) -> None:
    if not rows and dropped:
        raise DataError(f"table {source.table} has a NULL in each of its {dropped} rows: none is left")
    if not rows:
        raise DataError(f"table {source.table} has no rows; fill it first")


def _facts(source: Source, row: Row, dropped: int, nulls: Dict[str, int]) -> Facts:
    def by_column(columns: Sequence[Column], values: List[Any], read: Callable[[Any], Any]) -> Dict[str, Any]:
        pairs = zip(columns, values)
        return {column.name: read(value) for column, value in pairs if value is not None and value != EMPTY}

    return Facts(
        rows=row["rows"],
        dropped=dropped,
        nulls=nulls or _missing(source, row),
        mean=by_column(_numbers(source), row["means"], float),
        deviation=by_column(_numbers(source), row["deviations"], float),
        dims=by_column(_sized(source), row["smallest"], parse_size),
    )


def _check_nulls(source: Source, facts: Facts, problems: _Problems) -> None:
    if source.nulls == "drop":
        return
    total = facts.rows
    for column in source.selection.all:
        count = facts.nulls.get(column.name, 0)
        imputable = column.kind in ("numeric", "categorical") and column != source.selection.label
        imputed = source.nulls == "impute" and imputable and (column.kind != "numeric" or count < total)
        if count and not imputed:
            complaint = f"{count} NULL{'s' * (count != 1)} in {total} rows"
            offer = imputable and count < total and source.nulls == "refuse"
            problems.add(column, complaint, _DROP, *([_IMPUTE] if offer else []))


def _check_numbers(database: Database, source: Source, facts: Facts, problems: _Problems) -> None:
    unfit = [column for column in _numbers(source) if not math.isfinite(facts.mean.get(column.name, 0.0))]
    if not unfit:
        return

    def each(condition: str) -> Fragment:
        template = Fragment("count(*) filter (where " + condition + ")")
        return join(", ", (fill(template, c=column.sql()) for column in unfit))

    row = one(
        database,
        source.query(
            "unfit_numbers",
            nans=each("{c}::text = 'NaN'"),
            infinities=each("{c}::text in ('Infinity', '-Infinity')"),
            large=each(
                "abs(case when {c}::text not in ('NaN', 'Infinity', '-Infinity') then {c} end) > 3.4028235e38"
            ),
        ),
    )
    for column, *counts in zip(unfit, row["nans"], row["infinities"], row["large"]):
        _add_values(problems, column, dict(zip(("nans", "infinities", "large"), counts)))


def _add_values(problems: _Problems, column: Column, counts: Dict[str, int]) -> None:
    told = {"nulls": "NULL element", "nans": "NaN", "infinities": "Infinity", "large": "value beyond float32"}
    complaints = [f"{counts[key]} {word}" for key, word in told.items() if counts.get(key)]
    if complaints:
        problems.add(column, " and ".join(complaints), "filter or replace such values in a view")


def _check_sizes(database: Database, source: Source, row: Row, problems: _Problems) -> None:
    for column, smallest, largest in zip(_sized(source), row["smallest"], row["largest"]):
        if smallest is None:
            continue
        if smallest != largest or smallest == EMPTY:
            told = database.rows(source.query("sizes", size=size(column), column=column.sql()))
            _add_sizes(problems, column, told)
        elif column.is_array and len(parse_size(smallest)) > 4:
            problems.add(column, f"{len(parse_size(smallest))} dimensions", "arrays have 1 to 4 dimensions")
        elif column == source.selection.label and len(parse_size(smallest)) > 1:
            problems.add(column, f"{len(parse_size(smallest))} dimensions", "an array label has 1 dimension")


def _add_sizes(problems: _Problems, column: Column, told: List[Row]) -> None:
    sizes: Dict[str, int] = {}
    for row in told:
        shape = "no elements" if row["size"] == EMPTY else str(list(parse_size(row["size"])))
        sizes[shape] = sizes.get(shape, 0) + row["rows"]
    # Arrays of equal shape may differ in their lower bounds, which do not matter.
    if len(sizes) > 1 or "no elements" in sizes:
        shown = ", ".join(f"{shape} in {rows} rows" for shape, rows in sizes.items())
        problems.add(column, f"rows of different or no size ({shown})", "bring all rows to one shape")


def _check_elements(database: Database, source: Source, problems: _Problems) -> None:
    for column in _sized(source):
        if column.is_array:
            row = one(database, source.query("unfit_elements", column=column.sql()))
            _add_values(problems, column, row)
