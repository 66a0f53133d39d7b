"""Rows of a packed table from its heap and TOAST files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Dict, Optional, Sequence, Union

from cerebro_db.errors import UsageError
from cerebro_db.pages.files import RelationFile
from cerebro_db.pages.format import Attribute, Format
from cerebro_db.pages.heap import External, Heap, RowVersion
from cerebro_db.pages.toast import Toast, measured_chunk


@dataclass(frozen=True)
class TableFiles:
    """Where a table lies: paths of the first files of its heap and its TOAST relation."""

    heap: str
    toast: Optional[str]
    #: Identity of the TOAST relation, as pointers name it.
    toast_oid: int
    attributes: Sequence[Attribute]


class TableReader:
    """Some columns of rows that are known by their places. Used from one thread.

    Memory is that of one row, and an index of where values lie. Every error of a row is raised here
    already, RunError when it is not as it was; `row` looks again, since tables change.
    """

    def __init__(
        self, files: TableFiles, form: Format, places: Sequence[RowVersion], columns: Sequence[str]
    ) -> None:
        self._columns = columns
        self._places = places
        self._heap = Heap(RelationFile(files.heap, form), form, files.attributes)
        self._toast = _opened_toast(files.toast, form, files.toast_oid) if files.toast else None
        values = [value for place in places for value in self._values(place).values()]
        if self._toast is not None:
            self._toast.locate([value for value in values if isinstance(value, External)])

    def row(self, number: int) -> Dict[str, memoryview]:
        """The bytes of the columns in one of the places, the caller's own."""
        return {name: self._bytes(value) for name, value in self._values(self._places[number]).items()}

    def _values(self, place: RowVersion) -> Dict[str, Union[memoryview, External]]:
        found = self._heap.row(place)
        values = {}
        for name in self._columns:
            value = found.get(name)
            if value is None:
                raise UsageError(f"column {name!r} of the packed table is NULL, expected bytes; pack the table again")
            values[name] = value
        return values

    def _bytes(self, value: Union[memoryview, External]) -> memoryview:
        if isinstance(value, External):
            assert self._toast is not None
            return self._toast.value(value)
        return memoryview(bytes(value))


def _opened_toast(path: str, form: Format, oid: int) -> Toast:
    file = RelationFile(path, form)
    return Toast(file, form if form.chunk_size else replace(form, chunk_size=measured_chunk(file, form)), oid)
