"""How a packed table is written: how rows are cut into buffers, shuffled, packed and described."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple, Union

from cerebro_db.columns import WIRE, Column, Selection, shape_column
from cerebro_db.database import Database, one
from cerebro_db.datacheck import Facts, Source, refuse_elements
from cerebro_db.encoding import array_of, encode
from cerebro_db.engines import dialect, on_greenplum, stored
from cerebro_db.errors import DataError, UsageError
from cerebro_db.layout import DIST_KEY, Input, Layout, Target
from cerebro_db.packed import SUMMARY
from cerebro_db.packed_layout import widened
from cerebro_db.shuffle import Cut, changed, seeded, shuffle
from cerebro_db.sqltext import Fragment, TableName, fill, ident, join, query

#: A buffer that nobody sized has about this many bytes of one row's inputs and label.
BUFFER_BYTES = 4 << 20
#: No buffer may be larger, as stored or on its way: a value of PostgreSQL ends at 1 GB.
MOST_BYTES = 512 << 20
#: Memory for the sort that shuffles, unless the session has more [kB].
SORT_KB = 256 << 10

#: Sorting keeps memory flat where hashing buffers would hold the whole table; lists of words are hashed.
_FLAT = {
    "enable_hashagg": "off",
    "enable_nestloop": "off",
    "enable_mergejoin": "off",
    "optimizer": "off",  # Greenplum's other planner, which does not heed these
    # Lists of words are joined one after the other: thinking about the order of 20 would take hours.
    "join_collapse_limit": "1",
}


@dataclass(frozen=True)
class Job:
    """One packing: what is read, where it goes, and what the summary tells of the request."""

    source: Source
    output: TableName
    facts: Facts
    #: Rows per buffer asked for.
    buffer_size: Optional[int]
    segments: int
    rules: Optional[str]
    seed: int
    #: Whether every segment of Greenplum gets a copy of all rows, as functions that run there can read.
    everywhere: bool = False


def cut(rows: int, segments: int, row_bytes: int, widest: int, buffer_size: Optional[int]) -> Cut:
    """Cut rows into buffers of about BUFFER_BYTES, or of at most `buffer_size` rows.

    `row_bytes` is the size of a row as packed, `widest` that of its largest value on the way.
    Raises UsageError when a buffer would be too large for the server.
    """
    if widest > MOST_BYTES:
        raise UsageError(f"one row takes {widest >> 20} MB, more than the {MOST_BYTES >> 20} MB that are safe")
    size = min(rows, buffer_size or max(1, BUFFER_BYTES // row_bytes))
    if size * widest > MOST_BYTES:
        raise UsageError(
            f"a buffer of {size} rows would take {size * widest >> 20} MB, more than the "
            f"{MOST_BYTES >> 20} MB that are safe; give a buffer_size of at most {MOST_BYTES // widest}"
        )
    per_segment = -(-rows // (size * segments))
    whole = rows // segments
    return Cut(rows, segments, segments * min(per_segment, whole) if whole else rows)


def write(database: Database, job: Job, layout: Layout) -> Layout:
    plan = cut(job.facts.rows, job.segments, *_row_bytes(layout, job.source.selection), job.buffer_size)
    if job.facts.dropped:
        _tell_dropped(database, job)
    with settings(database, {**_FLAT, _memory(database): str(SORT_KB)}):
        layout = _fill_until_fits(database, job, layout, plan)
    table = job.output.sql()
    database.rows(query("packing", "index_packed", table=table))
    database.rows(query("packing", "analyze", table=table))
    _write_summary(database, job, layout, plan)
    return layout


def _memory(database: Database) -> str:
    """The setting of the memory that a sort takes [kB]."""
    return "statement_mem" if on_greenplum(database) else "work_mem"


def _row_bytes(layout: Layout, selection: Selection) -> Tuple[int, int]:
    """Bytes of a packed row, and of its largest value, as stored or as array_send writes it."""
    columns = dict(zip(layout.features, selection.features))
    stored = [item.row_bytes for item in layout.inputs] + [layout.target.row_bytes]
    sent = [_sent_bytes(columns[item.sources[0]], prod(item.shape)) for item in layout.inputs]
    sent.append(_sent_bytes(selection.label, prod(layout.target.shape)))
    return sum(stored), max(stored + sent)


def _sent_bytes(column: Column, elements: int) -> int:
    if not column.is_array:
        return 0
    return 44 + elements * (4 + int(WIRE[column.base][2:]))  # a header of up to 4 dimensions, then lengths


def _tell_dropped(database: Database, job: Job) -> None:
    shown = ", ".join(f"{count} in {name!r}" for name, count in job.facts.nulls.items())
    total = job.facts.rows + job.facts.dropped
    database.notice(f"left out {job.facts.dropped} of {total} rows with a NULL: {shown}")


def _fill_until_fits(database: Database, job: Job, layout: Layout, plan: Cut) -> Layout:
    """Pack; where an integer array turns out wider than its first rows, pack again with a wider dtype."""
    while True:
        _create(database, job, layout)
        _fill(database, job, layout, plan)
        unfit = _unfit(database, job, layout)
        if not unfit:
            return layout
        database.rows(query("packing", "drop_packed", table=job.output.sql()))
        layout = _widen(database, job, layout, unfit)


def _widen(database: Database, job: Job, layout: Layout, unfit: List[str]) -> Layout:
    columns = dict(zip(layout.features, job.source.selection.features))
    for item in layout.inputs:
        if item.column in unfit and item.dtype != "|u1":
            refuse_elements(database, job.source)
            raise DataError(f"column {item.column!r} holds arrays that are not {list(item.shape)} numbers")
        if item.column in unfit:
            layout = widened(layout, item, columns[item.column])
    if layout.target.column in unfit:
        refuse_elements(database, job.source)
        raise DataError(f"label {layout.target.source!r} holds arrays that are not finite numbers")
    return layout


def _pairs(layout: Layout) -> List[Tuple[Fragment, Fragment]]:
    return [(ident(name), ident(shape_column(name))) for name in layout.names]


def _create(database: Database, job: Job, layout: Layout) -> None:
    pairs = _pairs(layout)
    definitions = join(", ", (Fragment(f"{name} bytea, {shape} integer[]") for name, shape in pairs))
    where = stored(database, *([] if job.everywhere else [DIST_KEY]))
    database.rows(query("packing", "create_packed", table=job.output.sql(), columns=definitions, stored=where))
    for name, _ in pairs:
        database.rows(query("packing", "store_plain", table=job.output.sql(), column=name))


def _fill(database: Database, job: Job, layout: Layout, plan: Cut) -> None:
    encoded = encode(layout, job.source.selection, packing=True)
    label_wire = WIRE[job.source.selection.label.base] if layout.target.kind == "vector" else None
    wires = [*encoded.wires, label_wire]
    aggregates, values = _aggregates(layout, wires)
    pairs = zip(layout.columns, [*encoded.inputs, *([encoded.target] if encoded.target else [])], wires)
    expressions = [_bytes(k, *pair) for k, pair in enumerate(pairs)]
    order = shuffle(database, job.source, plan, job.seed)
    sql = job.source.dialect(
        database,
        "pack",
        packed=job.output.sql(),
        columns=join(", ", (part for pair in _pairs(layout) for part in pair)),
        inner=encoded.inner,
        beside=encoded.beside,
        joins=encoded.joins,
        encoded=join(", ", (Fragment(f"{expression} as i{k}") for k, expression in enumerate(expressions))),
        aggregates=aggregates,
        number=order.number,
        buffer=order.buffer,
    )
    values.update(encoded.values, **order.values, buffers_per_segment=plan.buffers_per_segment)
    values["keys"] = _keys(database, job)
    with seeded(database, order.seed):
        database.rows(sql, **values)


def _keys(database: Database, job: Job) -> List[int]:
    """The __dist_key__ of each segment; of a table that is everywhere, its number."""
    if job.everywhere:
        return list(range(job.segments))
    return [row["key"] for row in database.rows(dialect(database, "keys_of_segments"), segments=job.segments)]


def _bytes(k: int, item: Union[Input, Target], value: Fragment, wire: Optional[str]) -> Fragment:
    """The bytes of an encoded value; `wire` is the dtype in which array_send writes the elements of an array."""
    if wire is None:
        return value
    name = "real_bytes" if item.dtype == ">f4" else "whole_bytes"
    return query("packing", name, slot=Fragment(f"i{k}"), value=value)


def _aggregates(layout: Layout, wires: List[Optional[str]]) -> Tuple[Fragment, Dict[str, Any]]:
    """Per column of the packed table: its bytes from the encoded rows `b.i0`, `b.i1`, ..., and its shape."""
    parts: List[Fragment] = []
    values: Dict[str, Any] = {}
    for k, (item, wire) in enumerate(zip(layout.columns, wires)):
        slot = Fragment(f"i{k}")
        parts.append(query("packing", "complete" if wire else "concatenate", slot=slot))
        parts.append(query("packing", "shape", slot=slot))
        values[f"i{k}_shape"] = list(item.shape)
        if wire:
            values.update({f"i{k}_elements": prod(item.shape), f"i{k}_bytes": item.row_bytes})
        if wire and item.dtype != ">f4":
            values[f"i{k}_prefix"] = _prefix(int(wire[2:]), int(item.dtype[2:]))
    return join(", ", parts), values


def _prefix(sent: int, stored: int) -> str:
    """What array_send writes before the bytes of an element that are kept: its length, and its upper bytes."""
    return f"{sent:08x}" + "00" * (sent - stored)


def _unfit(database: Database, job: Job, layout: Layout) -> List[str]:
    """Columns with buffers that could not be stored in their dtype."""
    columns = layout.names
    counts = join(", ", (Fragment(f"count(*) - count({ident(name)})") for name in columns))
    shape = ident(shape_column(columns[-1]))
    row = one(database, query("packing", "unfit_buffers", table=job.output.sql(), counts=counts, shape=shape))
    if row["rows"] != job.facts.rows:
        raise changed(job.source, job.facts.rows, row["rows"])
    return [name for name, count in zip(columns, row["unfit"]) if count]


def _write_summary(database: Database, job: Job, layout: Layout, plan: Cut) -> None:
    target, label = layout.target, job.source.selection.label
    cast = Fragment("::" + label.plain_type.replace("%", "%%")) if label.is_array else array_of(label)
    padding = [None] * (target.outputs - len(target.classes)) if target.classes else []
    imputed = {name: n for name, n in job.facts.nulls.items() if job.source.nulls == "impute"}
    database.rows(
        query(
            "packing",
            "create_summary",
            summary=job.output.suffixed(SUMMARY).sql(),
            class_column=ident(class_column(label.name)),
            class_values=fill(Fragment("%(classes)s::text[]{cast}"), cast=cast),
            heap=dialect(database, "heap"),
            replicated=dialect(database, "replicated"),
        ),
        source_table=str(job.source.table),
        output_table=str(job.output),
        dependent=label.name,
        independent=[column.name for column in job.source.selection.features],
        dependent_type=label.sql_type,
        classes=[*target.classes, *padding] if target.classes else None,
        buffer_size=plan.buffer_size,
        normalizing_const=layout.normalizing_const,
        num_classes=[target.outputs] if target.kind == "class" else [],
        distribution_rules=job.rules or "all_segments",
        layout=layout.to_json(),
        rows=plan.rows,
        segments=plan.segments,
        seed=job.seed,
        nulls=layout.nulls,
        dropped_rows=job.facts.dropped,
        imputed=json.dumps(imputed),
    )


def class_column(label: str) -> str:
    """The column of a summary that lists the classes of a label."""
    return label + "_class_values"


@contextmanager
def settings(database: Database, wanted: Mapping[str, str]) -> Iterator[None]:
    """Session settings for a while, within a transaction; memory is only ever raised.

    After an error they go back with the transaction.
    """
    found = database.rows(query("packing", "settings"), names=list(wanted))
    before = {row["name"]: row["setting"] for row in found}
    after = {name: wanted[name] for name in before}
    for name in after.keys() & {_memory(database)}:
        after[name] = str(max(int(after[name]), int(before[name])))
    _apply(database, after)
    yield
    _apply(database, before)


def _apply(database: Database, wanted: Mapping[str, str]) -> None:
    database.rows(query("packing", "apply_settings"), names=list(wanted), values=list(wanted.values()))
