"""How rows become the bytes of a packed table, in SQL: one `bytea` expression per input.

Numbers are `float4send` and codes `int4send` of each column, put side by side: big-endian
">f4" and ">i4". `bytea` goes as it is. Arrays stay arrays here: packing has SQL functions that make
them bytes, and a model that predicts gets them as `array_send` writes them (a header, then each
element behind its length), of which `strip` keeps the elements only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from cerebro_db.columns import WIRE, Column, Selection
from cerebro_db.errors import DataError
from cerebro_db.layout import Input, Layout, Target
from cerebro_db.sqltext import Fragment, fill, join

#: An array column and the dtype it will be stored in -> the value that is read.
SendArray = Callable[[Column, str], Fragment]


@dataclass(frozen=True)
class Encoded:
    """SQL that encodes the rows of a table called `source`.

    `select <inner> from <table> as source <beside>` gives what is read once per row; around it,
    as `s`, `<joins>` look words up, and `inputs` and `target` are the encoded values.
    """

    inner: Fragment
    beside: Fragment
    joins: Fragment
    #: One expression per input of the layout: `bytea`, or an array that is still to be sent.
    inputs: Tuple[Fragment, ...]
    target: Optional[Fragment]
    values: Dict[str, Any]
    #: Per input: the dtype that array_send writes its elements in, None when there is no header.
    wires: Tuple[Optional[str], ...]

    @property
    def sent(self) -> Tuple[Fragment, ...]:
        """One `bytea` expression per input, for `gather`: arrays as array_send writes them."""
        template = Fragment("array_send({value})")
        pairs = zip(self.inputs, self.wires)
        return tuple(fill(template, value=value) if wire else value for value, wire in pairs)


@dataclass
class _Parts:
    inner: List[Fragment] = field(default_factory=list)
    joins: List[Fragment] = field(default_factory=list)
    values: Dict[str, Any] = field(default_factory=dict)

    def read(self, expression: Fragment) -> Fragment:
        """Have the innermost query compute an expression; gives the name it has outside."""
        self.inner.append(Fragment(f"{expression} as e{len(self.inner)}"))
        return Fragment(f"s.e{len(self.inner) - 1}")

    def look_up(self, expression: Fragment, words: Sequence[Optional[str]], cast: Fragment) -> Fragment:
        """Join a list of words; gives the word's code, 1 for the first, NULL when it is not listed."""
        n = len(self.joins)
        self.values[f"words_{n}"] = list(words)
        self.joins.append(
            Fragment(
                f"left join unnest(%(words_{n})s::text[]{cast}) with ordinality as w{n} (word, code)"
                f" on w{n}.word = {expression}"
            )
        )
        return Fragment(f"w{n}.code")


def encode(layout: Layout, selection: Selection, with_target: bool = True, packing: bool = False) -> Encoded:
    """Expressions that encode the columns of `selection` as `layout` says, mapped by position.

    A NULL gives a NULL `bytea`, except where the layout imputes. For `packing`, arrays that are stored
    as float4 are that already.
    """
    columns = dict(zip(layout.features, selection.features))
    parts = _Parts()
    sources = [[columns[name] for name in item.sources] for item in layout.inputs]
    send = _narrow_array if packing else _any_array
    inputs = tuple(_input(parts, layout, item, found, send) for item, found in zip(layout.inputs, sources))
    wires = tuple(_wire(item, found[0]) for item, found in zip(layout.inputs, sources))
    target = _target(parts, layout.target, selection.label, send) if with_target else None
    imputed = "cross join (select %(imputed)s::float8[] as imputed) as fixed"
    return Encoded(
        inner=join(", ", parts.inner),
        beside=Fragment(imputed if "imputed" in parts.values else ""),
        joins=join(" ", parts.joins),
        inputs=inputs,
        target=target,
        values=parts.values,
        wires=wires,
    )


def _any_array(column: Column, dtype: str) -> Fragment:
    """An array as the value that array_send takes; detoasted here, while rows are read in order."""
    # Concatenating with an empty array detoasts without touching an element; NULL must stay NULL.
    cast = "::float8[]" if column.base == "numeric" else ""
    template = f"case when {{c}} is not null then array_cat({{c}}{cast}, '{{}}') end"
    return fill(Fragment(template), c=column.sql())


def _narrow_array(column: Column, dtype: str) -> Fragment:
    """The same; as float4 where that is how it will be stored, NULL for elements that are too large."""
    if dtype != ">f4" or column.base == "float4":
        return _any_array(column, dtype)
    template = "{c}::real[]" if WIRE[column.base][1] == "i" else "cerebro_private.narrowed({c}::float8[])"
    return fill(Fragment(template), c=column.sql())


def strip(data: bytes, rows: int, elements: int, wire: str, dtype: str) -> Optional[bytes]:
    """Bytes of `array_send` values back to back -> bytes of [rows, elements] in `dtype`.

    `wire` is the dtype of an element as sent. None when an element is NULL, not finite, or outside
    of `dtype`, or when the arrays are not all of one shape.
    """
    dimensions = int.from_bytes(data[:4], "big")
    items = np.dtype([("size", "u1", 4), ("value", wire)])
    record = np.dtype([("head", "u1", 12 + 8 * dimensions), ("items", items, (elements,))])
    if len(data) != rows * record.itemsize:
        return None
    sent = np.frombuffer(data, record)
    if not _same_shape(sent["head"], dimensions):
        return None
    return _converted(sent["items"]["value"], dtype)


def gather(
    item: Input, wire: Optional[str], values: Sequence[Optional[bytes]], ids: Sequence[object]
) -> bytes:
    """Encoded values of raw rows -> bytes of [rows, *item.shape] in `item.dtype`.

    `ids` name the rows. Raises DataError for the first row whose value is NULL or does not fit.
    """
    data = b"".join(value or b"" for value in values)
    if wire is None:
        good = None not in values and all(len(value or b"") == item.row_bytes for value in values)
        stripped = data if good else None
    else:
        stripped = strip(data, len(values), prod(item.shape), wire, item.dtype) if data else None
    if stripped is None and values:
        _refuse_row(item, wire, values, ids)
    return stripped or b""


def _refuse_row(
    item: Input, wire: Optional[str], values: Sequence[Optional[bytes]], ids: Sequence[object]
) -> None:
    for name, value in zip(ids, values):
        what = ", ".join(item.sources[:10])
        if value is None:
            raise DataError(f"row {name} has a NULL in {what}; the model was trained without, so fill it")
        if wire is None and len(value) != item.row_bytes:
            raise DataError(f"row {name} has {len(value)} bytes in {what}, expected {item.row_bytes}")
        if wire is not None and strip(value, 1, prod(item.shape), wire, item.dtype) is None:
            raise DataError(
                f"row {name} has an array in {what} that is not {list(item.shape)} finite numbers "
                f"within {item.dtype}"
            )
    raise DataError(f"arrays of {', '.join(item.sources)} differ in dimensions; bring them to one shape")


def _same_shape(heads: Any, dimensions: int) -> bool:
    """Whether all headers state the same sizes and no NULL; lower bounds may differ."""
    words = heads.view(">i4").reshape(len(heads), -1)
    sizes = words[:, 3::2]
    return bool((words[:, 0] == dimensions).all() and not words[:, 1].any() and (sizes == sizes[0]).all())


def _converted(items: Any, dtype: str) -> Optional[bytes]:
    if np.dtype(dtype).kind in "iu":
        limits = np.iinfo(dtype)
        fits = items.min() >= limits.min and items.max() <= limits.max
        return items.astype(dtype).tobytes() if fits else None
    with np.errstate(over="ignore"):
        stored = items.astype(dtype)
    return stored.tobytes() if np.isfinite(stored).all() else None


def _input(parts: _Parts, layout: Layout, item: Input, columns: List[Column], send: SendArray) -> Fragment:
    if item.kind == "numeric":
        numbers = [_float(parts, layout, i, column) for i, column in enumerate(columns)]
        return parts.read(_side_by_side(numbers))
    if item.kind == "categorical":
        codes = [_code(parts, layout, words, column) for words, column in zip(item.vocabulary, columns)]
        return _side_by_side(codes)
    (column,) = columns
    if column.kind == "array":
        return parts.read(send(column, item.dtype))
    # Appending nothing detoasts, so that sorting carries the bytes and not a pointer to them.
    return parts.read(fill(Fragment("({c} || ''::bytea)"), c=column.sql()))


def _wire(item: Input, column: Column) -> Optional[str]:
    return WIRE[column.base] if item.kind == "array" and column.kind == "array" else None


def _float(parts: _Parts, layout: Layout, index: int, column: Column) -> Fragment:
    value = real(column)
    if layout.nulls == "impute":
        parts.values["imputed"] = list(layout.imputed)
        value = Fragment(f"coalesce({value}, (fixed.imputed)[{index + 1}]::float4)")
    return Fragment(f"float4send({value})")


def real(column: Column) -> Fragment:
    """A number as float4; what is too small for one becomes 0 instead of an error."""
    template = "{c}::float4"
    if column.base in ("float8", "numeric"):
        template = "(case when abs({c}) < 1e-45 then 0 else {c}::float8 end)::float4"
    return fill(Fragment(template), c=column.sql())


def _code(parts: _Parts, layout: Layout, words: Sequence[str], column: Column) -> Fragment:
    word = parts.read(fill(Fragment("{c}::text"), c=column.sql()))
    code = parts.look_up(word, words, Fragment(""))
    if layout.nulls == "impute":
        return Fragment(f"int4send(coalesce({code}, 0)::int4)")
    return Fragment(f"int4send((case when {word} is not null then coalesce({code}, 0) end)::int4)")


def _target(parts: _Parts, target: Target, label: Column, send: SendArray) -> Fragment:
    if target.kind == "value":
        return parts.read(Fragment(f"float4send({real(label)})"))
    if target.kind == "vector":
        return parts.read(send(label, target.dtype))
    code = parts.look_up(parts.read(label.sql()), target.classes, array_of(label))
    return Fragment(f"int4send(({code} - 1)::int4)")


def array_of(column: Column) -> Fragment:
    """The cast from text[] to an array of the column's type, as the catalog itself writes it."""
    return Fragment("::" + column.plain_type.replace("%", "%%") + "[]")


def _side_by_side(expressions: List[Fragment]) -> Fragment:
    """a || b || ..., short chains in a balanced tree: a long one would copy its growing prefix each time."""
    if len(expressions) <= 32:
        return Fragment(f"({' || '.join(expressions)})")
    middle = len(expressions) // 2
    return Fragment(f"({_side_by_side(expressions[:middle])} || {_side_by_side(expressions[middle:])})")
