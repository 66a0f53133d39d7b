"""Which columns of a table are features and which is the label, and what kind each of them is."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from math import prod
from typing import Dict, List, Optional, Tuple

from cerebro_db import names
from cerebro_db.database import Database
from cerebro_db.errors import MissingError, UsageError
from cerebro_db.layout import BUFFER_ID, DIST_KEY
from cerebro_db.sqltext import Fragment, TableName, ident, query, split_names

#: The input columns that scalars are stacked into.
NUMERIC = "numeric_features"
CATEGORICAL = "categorical_features"
#: Element types of arrays -> the NumPy dtype in which array_send writes an element.
WIRE = {"int2": ">i2", "int4": ">i4", "int8": ">i8", "float4": ">f4", "float8": ">f8", "numeric": ">f8"}

_INTEGERS = ("int2", "int4", "int8")
_REALS = ("float4", "float8", "numeric")
_TEXTS = ("text", "varchar", "bpchar", "char", "name")
_WORDS = (*_TEXTS, "bool", "uuid")
_TIMES = ("timestamp", "timestamptz", "date", "time", "timetz", "interval")
_ITEM = re.compile(r'\s*(?:(\*)|("(?:[^"]|"")+"|[^\W\d][\w$]*)\s*(?:\[([^\]]*)\])?)\s*(,|$)')


@dataclass(frozen=True)
class Column:
    """One column of a source table."""

    name: str
    #: Its type as SQL writes it, such as `numeric(12,4)`.
    sql_type: str
    #: The type under domains, without a modifier, such as `numeric`; may be cast to.
    plain_type: str
    #: Name of that type in pg_type, such as `int4`; of an array, the name of its element type.
    base: str
    is_array: bool
    is_enum: bool
    #: Shape of one example where the user states it, as in `img[28,28]`.
    shape: Optional[Tuple[int, ...]] = None

    @property
    def kind(self) -> str:
        """`numeric`, `categorical`, `array`, `bytea`, or `` when a column of it cannot be packed."""
        if self.is_array:
            return "array" if self.base in WIRE else ""
        if self.is_enum or self.base in _WORDS:
            return "categorical"
        if self.base in _INTEGERS + _REALS:
            return "numeric"
        return "bytea" if self.base == "bytea" else ""

    @property
    def is_integer(self) -> bool:
        return not self.is_array and self.base in _INTEGERS

    @property
    def is_real(self) -> bool:
        """Whether the values can be fractional: a label of it is a value, not a class."""
        return not self.is_array and self.base in _REALS

    @property
    def is_text(self) -> bool:
        return not self.is_array and not self.is_enum and self.base in _TEXTS

    def sql(self) -> Fragment:
        """The column of the source table, which queries call `source`."""
        return Fragment(f"source.{ident(self.name)}")


@dataclass(frozen=True)
class Selection:
    """What a packing reads: the label and the features, in the user's order."""

    label: Column
    features: Tuple[Column, ...]

    def of(self, kind: str) -> Tuple[Column, ...]:
        return tuple(column for column in self.features if column.kind == kind)

    @property
    def tensors(self) -> Tuple[Column, ...]:
        """Features that are an input of their own."""
        return tuple(column for column in self.features if column.kind in ("array", "bytea"))

    @property
    def all(self) -> Tuple[Column, ...]:
        return (*self.features, self.label)


def describe(database: Database, table: TableName) -> Dict[str, Column]:
    """Every column of a table, in order."""
    found = database.rows(query("packing", "describe"), table=names.literal(table))
    return {row["name"]: Column(**row) for row in found}


def select(
    known: Dict[str, Column],
    table: TableName,
    label_text: str,
    features_text: str,
    like: Tuple[str, ...] = (),
) -> Selection:
    """Find the label and the features that two texts such as `y` and `a, "B", img[28,28]` name.

    `*` is every column but the label; with `like`, the feature names of an earlier packing, it is
    these. Raises MissingError for a column that is not there, UsageError for one that cannot be
    packed or is named twice.
    """
    if DIST_KEY in known:
        raise UsageError(f"table {table} is packed already (it has a column {DIST_KEY}); give the raw rows")
    label = _label(known, table, label_text)
    star = like or tuple(name for name in known if name != label.name)
    features = find_features(known, table, features_text, star)
    _check_label(label, features)
    selection = Selection(label, features)
    _check_names(selection)
    return selection


def _label(known: Dict[str, Column], table: TableName, text: str) -> Column:
    labels = split_names(text, "dependent_varname")
    if len(labels) > 1:
        raise UsageError(
            f"dependent_varname {text!r} names {len(labels)} labels, expected one; "
            "for several outputs give one numeric array column"
        )
    return find_column(known, table, labels[0], "label column")


def find_features(
    known: Dict[str, Column], table: TableName, text: str, star: Tuple[str, ...]
) -> Tuple[Column, ...]:
    """The columns that a text such as `a, "B", img[28,28]` names; `*` stands for those of `star`.

    Raises as `select` does.
    """
    features: List[Column] = []
    for name, shape in parse_features(text):
        for each in star if name == "*" else (name,):
            column = find_column(known, table, each, "feature column")
            features.append(Column(**{**column.__dict__, "shape": shape}))
    twice = [name for name, count in Counter(column.name for column in features).items() if count > 1]
    if twice:
        raise UsageError(f"independent_varname names column {twice[0]!r} more than once; name each one once")
    _check_kinds(tuple(features), table)
    return tuple(features)


def parse_features(text: Optional[str]) -> List[Tuple[str, Optional[Tuple[int, ...]]]]:
    """Split `a, "B", img[28,28]` into names with the shape each states; `*` stays as it is."""
    what = "independent_varname"
    if text is None or not text.strip() or text.strip().lower() == "null":
        split_names(text, what)
    found, position = [], 0
    while True:
        match = _ITEM.match(text or "", position)
        if match is None:
            raise UsageError(
                f"{what} {text!r} is not a list of columns at {(text or '')[position:position + 30]!r}; "
                'expected names such as a, "B", img[28,28], or *; expressions go into a view'
            )
        star, name, shape, separator = match.groups()
        found.append(("*", None) if star else (split_names(name, what)[0], _shape(name, shape)))
        position = match.end()
        if not separator:
            return found


def _shape(name: str, text: Optional[str]) -> Optional[Tuple[int, ...]]:
    if text is None:
        return None
    sizes = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"[1-9]\d{0,8}", size) for size in sizes):
        raise UsageError(f"shape [{text}] of {name} is not valid: expected whole numbers, as in img[28,28]")
    return tuple(int(size) for size in sizes)


def find_column(known: Dict[str, Column], table: TableName, name: str, what: str) -> Column:
    """The column of that name; `what` says its role. Raises MissingError when it is not there."""
    if name not in known:
        raise MissingError(
            f"{what} {name!r} does not exist in table {table}{names.nearest(name, known)}; "
            f"its columns are {listed(list(known))}"
        )
    return known[name]


def _check_label(label: Column, features: Tuple[Column, ...]) -> None:
    if not features:
        raise UsageError(f"no feature column is left beside the label {label.name!r}; name at least one")
    if any(column.name == label.name for column in features):
        raise UsageError(
            f"column {label.name!r} is both the label and a feature; a model would only copy it: "
            "take it out of independent_varname"
        )
    if label.kind in ("", "bytea"):
        raise UsageError(
            f"label column {label.name!r} has type {label.sql_type}, which cannot be a label; "
            "expected text, boolean, enum, a number, or a numeric array"
        )


def _check_kinds(features: Tuple[Column, ...], table: TableName) -> None:
    refused = [column for column in features if not column.kind]
    if refused:
        shown = listed([f"{column.name!r} ({column.sql_type})" for column in refused])
        raise UsageError(f"table {table} has columns whose type cannot be packed: {shown}; {_hint(refused)}")
    for column in features:
        if column.shape is not None and column.kind not in ("array", "bytea"):
            raise UsageError(
                f"column {column.name!r} has type {column.sql_type} and cannot have the shape "
                f"{list(column.shape)}; only arrays and bytea have shapes"
            )


def _hint(refused: List[Column]) -> str:
    times = [column for column in refused if column.base in _TIMES and not column.is_array]
    hint = "leave them out, or cast them in a view to numbers, text, boolean, numeric arrays or bytea"
    if times:
        hint += f"; for time write extract(epoch from {times[0].name}) in a view"
    return hint


def _check_names(selection: Selection) -> None:
    stacked = [NUMERIC] * bool(selection.of("numeric")) + [CATEGORICAL] * bool(selection.of("categorical"))
    inputs = stacked + [column.name for column in selection.tensors] + [selection.label.name]
    taken = [BUFFER_ID, DIST_KEY]
    for name in inputs:
        for each in (name, shape_column(name)):
            if each in taken:
                raise UsageError(
                    f"column name {name!r} collides with the column {each!r} of the packed table; "
                    "rename it in a view"
                )
            taken.append(each)


def shape_column(name: str) -> str:
    """The column of a packed table that holds the shapes of input `name`."""
    return name + "_shape"


def listed(items: List[str], most: int = 10) -> str:
    """Items in a sentence, the first ten by name."""
    shown = ", ".join(items[:most])
    return shown if len(items) <= most else f"{shown} and {len(items) - most} more"


def check_shape(column: Column, elements: int, dims: Tuple[int, ...]) -> Tuple[int, ...]:
    """The shape of one example: the one stated, when it has as many elements, else `dims`."""
    if column.shape is None:
        return dims
    if prod(column.shape) != elements:
        raise UsageError(
            f"shape {list(column.shape)} of column {column.name!r} has {prod(column.shape)} elements, "
            f"but each row holds {elements}"
        )
    return column.shape
