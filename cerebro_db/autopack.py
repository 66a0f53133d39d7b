"""Packing by madlib_mop_fit itself: a source that is not packed gets a packed copy, kept for the next fit.

The copy `<source>_packed` stands in the schema of the outputs and belongs to the caller. It is used
again while the source's row versions and the request are the same, and made anew when they are not.
"""

from __future__ import annotations

import json
from typing import Iterable, List, Optional, Union

from cerebro_db import names, packing
from cerebro_db.client import PsycopgDatabase
from cerebro_db.database import Database
from cerebro_db.errors import ExistsError, UsageError
from cerebro_db.options import Options
from cerebro_db.pack_request import PackOptions, PackRequest, ValidationRequest
from cerebro_db.sqltext import TableName, query

Request = Union[PackRequest, ValidationRequest]


def packed_or_pack(
    session: PsycopgDatabase,
    source: TableName,
    schema: Optional[str],
    options: Options,
    made: List[TableName],
    training: Optional[packing.Packed] = None,
) -> packing.Packed:
    """The packed table that `source` is, or its copy in `schema`; like `training` for validation rows.

    A copy that had to be made is added to `made`.
    """
    if packing.is_packed(session, source):
        return packing.read_packed(session, str(source))
    copy = TableName(schema, source.name + "_packed")
    request = _request(source, copy, options, training)
    with session.transaction():
        if not _usable(session, source, copy, request):
            _pack(session, source, copy, request)
            made.append(copy)
    return packing.read_packed(session, str(copy))


def drop(session: Database, copies: Iterable[TableName]) -> None:
    """Remove packed copies with their summaries."""
    for copy in copies:
        for table in (copy, copy.suffixed(packing.SUMMARY)):
            session.rows(query("autopack", "drop", table=table.sql()))


def _request(
    source: TableName, copy: TableName, options: Options, training: Optional[packing.Packed]
) -> Request:
    if not options.dependent_varname or not options.independent_varname:
        raise UsageError(
            f"table {source} is not packed: run training_preprocessor_dl first, or name its columns in "
            "options, for example '{\"dependent_varname\": \"label\", \"independent_varname\": \"img\"}'"
        )
    columns = (options.dependent_varname, options.independent_varname)
    if training is not None:
        return ValidationRequest(str(source), str(copy), *columns, str(training.table))
    return PackRequest(
        str(source),
        str(copy),
        *columns,
        normalizing_const=options.normalizing_const,
        num_classes=(options.num_classes,) if options.num_classes else None,
        options=PackOptions(seed=options.seed, nulls=options.nulls, segments=options.segments or None),
    )


def _usable(session: Database, source: TableName, copy: TableName, request: Request) -> bool:
    """Whether the copy is there and still what the request would make; drops one that is not."""
    if names.find(session, copy) is None:
        return False
    known = session.rows(query("autopack", "find"), table=names.literal(copy))
    if not known:
        raise ExistsError(
            f"table {copy} exists and is no packed copy of {source}, which fit would name so; rename it, or pack "
            "the source yourself by training_preprocessor_dl"
        )
    now = packing.fingerprint(session, source)
    if now is not None and (known[0]["fingerprint"], known[0]["request"]) == (now, request_text(request)):
        return True
    drop(session, [copy])
    return False


def _pack(session: Database, source: TableName, copy: TableName, request: Request) -> None:
    if isinstance(request, PackRequest):
        packing.pack_training(session, request)
    else:
        packing.pack_validation(session, request)
    session.rows(
        query("autopack", "add"),
        table=names.literal(copy),
        source=names.literal(source),
        fingerprint=packing.fingerprint(session, source) or "",
        request=request_text(request),
    )


def request_text(request: Request) -> str:
    """The request as text to compare; the same columns and options give the same text."""
    return json.dumps(vars(request), sort_keys=True, default=vars)
