"""The preprocessors: check the rows, shuffle them once, and pack them into buffers.

All heavy work is one scan that checks and one statement that packs; no row passes through Python.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import Iterator, Tuple, Union

from cerebro_db import names
from cerebro_db.columns import Selection, describe, select, shape_column
from cerebro_db.database import Database, one, together
from cerebro_db.datacheck import Facts, Source, check
from cerebro_db.encoding import encode, gather
from cerebro_db.engines import dialect, on_greenplum
from cerebro_db.environment import cores
from cerebro_db.errors import UsageError
from cerebro_db.layout import Layout
from cerebro_db.pack_request import PackOptions, PackRequest, ValidationRequest
from cerebro_db.pack_write import Job, class_column, settings, write
from cerebro_db.packed import SUMMARY, Packed, buffers_sql, fingerprint, is_packed, read_packed
from cerebro_db.packed_layout import require_kinds, training_layout, validation_layout
from cerebro_db.row_places import placed
from cerebro_db.sqltext import TableName, query

__all__ = [
    "SUMMARY",
    "PackOptions",
    "PackRequest",
    "Packed",
    "ValidationRequest",
    "buffers_sql",
    "class_column",
    "default_segments",
    "describe",
    "encode",
    "fingerprint",
    "gather",
    "is_packed",
    "pack_training",
    "pack_validation",
    "read_packed",
    "segment_count",
    "select",
    "training_label",
]

Request = Union[PackRequest, ValidationRequest]

#: Rows must come in one order each time, floats as text keep all digits, and compiling does not pay.
_STEADY = {
    "synchronize_seqscans": "off",
    "max_parallel_workers_per_gather": "0",
    "extra_float_digits": "3",
    "jit": "off",
}


def pack_training(database: Database, request: PackRequest) -> Layout:
    """Pack a training table into `output_table` and `output_table_summary`, in the caller's name.

    Raises UsageError or DataError before anything is created.
    """
    table = names.require(database, request.source_table, "source table")
    output = names.require_new(database, request.output_table, "output table", (SUMMARY,))
    known = describe(database, table)
    selection = select(known, table, request.dependent_varname, request.independent_varname)
    _check_lengths(database, selection)
    segments = request.segments or default_segments(database)
    with _read(database, table, selection, request.options.nulls) as source:
        facts = check(database, source)
        layout = training_layout(database, source, facts, request)
        return write(database, _job(source, output, facts, request, (segments, request.options.seed)), layout)


def pack_validation(database: Database, request: ValidationRequest) -> Layout:
    """Pack a validation table like the training table that it is for; columns map by position.

    Segments, seed, classes, words and the NULL policy are those of the training table. Raises
    UsageError or DataError before anything is created.
    """
    table = names.require(database, request.source_table, "source table")
    training = read_packed(database, request.training_preprocessor_table, "training table")
    output = names.require_new(database, request.output_table, "output table", (SUMMARY,))
    selection = _like(database, table, request, training.layout)
    require_kinds(training.layout, selection)
    with _read(database, table, selection, training.layout.nulls) as source:
        facts = check(database, source)
        layout = validation_layout(database, source, facts, training.layout)
        job = _job(source, output, facts, request, (training.segment_count, training.seed))
        return write(database, replace(job, everywhere=on_greenplum(database)), layout)


def training_label(database: Database, training: str) -> str:
    """The label column of a packed training table, as dependent_varname names it."""
    return names.literal(TableName(None, read_packed(database, training, "training table").layout.target.source))


def _like(database: Database, table: TableName, request: ValidationRequest, layout: Layout) -> Selection:
    known = describe(database, table)
    # "*" means the training columns where the table has them all, in whatever order.
    like = layout.features if all(name in known for name in layout.features) else ()
    return select(known, table, request.dependent_varname, request.independent_varname, like)


@contextmanager
def _read(database: Database, table: TableName, selection: Selection, nulls: str) -> Iterator[Source]:
    """What is packed, in one transaction."""
    with together(database), settings(database, _STEADY), placed(database, table, selection.all) as places:
        if places.copied:
            database.notice(
                f"the rows of {table} lie in no place of their own, so packing them again with the same seed gives "
                "another order"
            )
        yield Source(table, selection, nulls, places)


def _job(
    source: Source, output: TableName, facts: Facts, request: Request, segments_and_seed: Tuple[int, int]
) -> Job:
    segments, seed = segments_and_seed
    return Job(
        source=source,
        output=output,
        facts=facts,
        buffer_size=request.buffer_size,
        segments=segments,
        rules=request.distribution_rules,
        seed=seed,
    )


def default_segments(database: Database) -> int:
    """The setting cerebro.segments; else the primaries of a Greenplum; else one per core of the server, or of this
    process where the server has no PL/Python."""
    found = one(database, dialect(database, "default_segments"))
    if found["segments"] is None and found["primaries"] is not None:
        return int(found["primaries"])
    if found["segments"] is None:
        return int(one(database, query("packing", "cores"))["cores"]) if found["counts"] else cores()
    text = str(found["segments"])
    if not text.strip().isdigit() or int(text) < 1:
        raise UsageError(f"the setting cerebro.segments is {text!r}, expected a whole number above 0")
    return int(text)


def segment_count(database: Database, packed: TableName) -> int:
    """How many segments a packed table was made for."""
    summary = packed.suffixed(SUMMARY).sql()
    return int(one(database, query("packing", "read_summary", summary=summary))["segments"])


def _check_lengths(database: Database, selection: Selection) -> None:
    limit = one(database, query("packing", "name_bytes"))["name_bytes"]
    made = [shape_column(column.name) for column in selection.tensors] + [class_column(selection.label.name)]
    for name in made:
        if len(name.encode()) > limit:
            raise UsageError(f"column name {name!r} would have more than {limit} bytes; rename it in a view")
