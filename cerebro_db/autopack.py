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
    text = request_text(request, training)
    with session.transaction():
        if not _usable(session, source, copy, text):
            _pack(session, source, copy, request, text)
            made.append(copy)
    return packing.read_packed(session, str(copy))


def drop(session: Database, copies: Iterable[TableName]) -> None:
    """Remove packed copies with their summaries; ExistsError when something else needs one."""
    for copy in copies:
        for table in (copy, copy.suffixed(packing.SUMMARY)):
            used = session.rows(query("autopack", "dependents"), table=names.literal(table))
            if used:
                raise ExistsError(
                    f"packed copy {copy} is out of date and cannot be made anew, because {used[0]['shown']} needs "
                    f"{table}; drop that first"
                )
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


def _usable(session: Database, source: TableName, copy: TableName, text: str) -> bool:
    """Whether the copy is there and still what the request would make; drops one that is not."""
    if names.find(session, copy) is None:
        return False
    known = session.rows(query("autopack", "find"), table=names.literal(copy))
    if not known:
        raise ExistsError(
            f"table {source} is not packed, and its copy would be {copy}, which exists and was not made by a fit; "
            "train on that one if it is packed, or rename it"
        )
    now = packing.fingerprint(session, source)
    if now is not None and (known[0]["fingerprint"], known[0]["request"]) == (now, text):
        return True
    drop(session, [copy])
    return False


def _pack(session: Database, source: TableName, copy: TableName, request: Request, text: str) -> None:
    if isinstance(request, PackRequest):
        packing.pack_training(session, request)
    else:
        packing.pack_validation(session, request)
    session.rows(
        query("autopack", "add"),
        table=names.literal(copy),
        source=names.literal(source),
        fingerprint=packing.fingerprint(session, source) or "",
        request=text,
    )


def request_text(request: Request, training: Optional[packing.Packed] = None) -> str:
    """The request as text to compare; validation rows must be packed again when training rows were."""
    made_from = {} if training is None else {"training_oid": training.oid}
    return json.dumps({**vars(request), **made_from}, sort_keys=True, default=vars)
