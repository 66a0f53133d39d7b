"""Rows of a packed table from its heap and TOAST files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Optional, Sequence

from cerebro_db.errors import UsageError
from cerebro_db.pages.files import RelationFile
from cerebro_db.pages.format import Attribute, Format
from cerebro_db.pages.heap import External, Heap, RowVersion, Value
from cerebro_db.pages.toast import Toast


@dataclass(frozen=True)
class TableFiles:
    """Where a table lies: paths of the first files of its heap and its TOAST relation."""

    heap: str
    toast: Optional[str]
    #: Identity of the TOAST relation, as pointers name it.
    toast_oid: int
    attributes: Sequence[Attribute]


class TableReader:
    """Reads whole rows by their place. Used from one thread; memory is that of one row and the index."""

    def __init__(self, files: TableFiles, form: Format) -> None:
        self._heap = Heap(RelationFile(files.heap, form), form, files.attributes)
        self._toast = Toast(RelationFile(files.toast, form), form, files.toast_oid) if files.toast else None

    def row(self, wanted: RowVersion, columns: Sequence[str]) -> Dict[str, memoryview]:
        """The bytes of some columns, the caller's own. Raises RunError when the row is not as it was."""
        found = self._heap.row(wanted)
        return {name: self._bytes(name, found.get(name)) for name in columns}

    def _bytes(self, name: str, value: Value) -> memoryview:
        if value is None:
            raise UsageError(f"column {name!r} of the packed table is NULL, expected bytes; pack the table again")
        if isinstance(value, External):
            assert self._toast is not None
            return self._toast.value(value)
        return memoryview(bytes(value))
