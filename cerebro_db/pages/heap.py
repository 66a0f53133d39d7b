"""One row version of a heap: its columns, inline or as pointers to TOASTed values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Sequence, Tuple, Union

from cerebro_db.errors import RunError, UsageError
from cerebro_db.pages.files import RelationFile
from cerebro_db.pages.format import COMPRESSION, Attribute, Format
from cerebro_db.pages.window import NORMAL, STATES, Window

#: Byte offsets in a tuple's header, and its fixed part.
_XMIN, _XMAX, _INFOMASK2, _INFOMASK, _HOFF, _BITS = 0, 4, 18, 20, 22, 23
_ATTRIBUTES = 0x07FF
_HAS_NULL = 0x0001
_XMAX_LOCK_ONLY, _XMAX_INVALID, _XMAX_IS_GROUP = 0x0080, 0x0800, 0x1000
#: What a pointer to a value on disk ends with: four numbers.
_POINTED = 16
_RAW_HEADER = 4
_SIZE_BITS = 30


@dataclass(frozen=True)
class RowVersion:
    """A row as a snapshot sees it: where it lies, and the transaction that wrote it."""

    block: int
    #: Number of its line pointer, from 1.
    item: int
    xmin: int
    #: A transaction that marked it deleted and failed; 0 when the server knows of none.
    failed: int = 0


@dataclass(frozen=True)
class External:
    """A value that is stored in chunks: `size` bytes under `value_id` in TOAST relation `relation`."""

    size: int
    value_id: int
    relation: int


Value = Union[None, memoryview, External]


class Heap:
    """Row versions of one table, looked up by place. Used from one thread."""

    def __init__(self, file: RelationFile, form: Format, attributes: Sequence[Attribute]) -> None:
        self._file = file
        self._form = form
        self._attributes = attributes
        self._page = Window(file, form, 1)

    def row(self, wanted: RowVersion) -> Dict[str, Value]:
        """Its columns; inline ones view memory that the next call overwrites.

        Raises RunError when the page no longer holds this version, or the version is deleted.
        """
        if wanted.block >= self._file.blocks:
            raise self._changed(wanted, "its page is not in the file")
        self._page.fill(wanted.block, 1)
        offset, state, length = (int(number) for number in self._page.pointer(wanted.item))
        if state != NORMAL:
            raise self._changed(wanted, f"its line pointer is {STATES[state]}")
        if offset + length > self._form.block_size or length < _BITS:
            raise self._page.damaged("a line pointer leaves its page")
        data = self._page.bytes.data[offset : offset + length]
        self._check(wanted, data)
        return self._columns(data)

    def _check(self, wanted: RowVersion, data: memoryview) -> None:
        xmin = self._form.number(data[_XMIN : _XMIN + 4])
        if xmin != wanted.xmin:
            raise self._changed(wanted, f"transaction {xmin} wrote what is there, not {wanted.xmin}")
        info = self._form.number(data[_INFOMASK : _INFOMASK + 2])
        has_failed = self._form.number(data[_XMAX : _XMAX + 4]) == wanted.failed and not info & _XMAX_IS_GROUP
        if not info & (_XMAX_INVALID | _XMAX_LOCK_ONLY) and not has_failed:
            raise self._changed(wanted, "it is deleted or updated")

    def _columns(self, data: memoryview) -> Dict[str, Value]:
        count = self._form.number(data[_INFOMASK2 : _INFOMASK2 + 2]) & _ATTRIBUTES
        nulls = self._form.number(data[_INFOMASK : _INFOMASK + 2]) & _HAS_NULL
        body, place = data[data[_HOFF] :], 0
        found: Dict[str, Value] = {}
        for number, attribute in enumerate(self._attributes[:count]):
            if nulls and not data[_BITS + number // 8] >> number % 8 & 1:
                found[attribute.name] = None
                continue
            try:
                place, found[attribute.name] = self._column(attribute, body, place)
            except IndexError:
                raise self._page.damaged(f"column {attribute.name!r} leaves its tuple") from None
        return found

    def _column(self, attribute: Attribute, body: memoryview, place: int) -> Tuple[int, Value]:
        if attribute.length == -1:
            return self._varlena(attribute, body, place)
        place = _aligned(place, self._form.alignment(attribute.align))
        length = attribute.length if attribute.length > 0 else bytes(body[place:]).index(0) + 1
        return place + length, _part(body, place, place + length)

    def _varlena(self, attribute: Attribute, body: memoryview, place: int) -> Tuple[int, Value]:
        if body[place] == 0:  # padding, or a long header that is aligned already
            place = _aligned(place, self._form.alignment(attribute.align))
        first, little = body[place], self._form.little_headers
        if first == (0x01 if little else 0x80):
            end = place + self._form.pointer_bytes
            return end, self._pointer(attribute, _part(body, place, end))
        if first & (0x01 if little else 0x80):
            length = first >> 1 if little else first & 0x7F
            return place + length, _part(body, place + 1, place + length)
        word = self._form.header(_part(body, place, place + 4))
        compressed = first & (0x02 if little else 0x40)
        length = word >> 2 if little else word & 0x3FFFFFFF
        if compressed:
            raise self._compressed(attribute, self._form.number(_part(body, place + 4, place + 8)))
        return place + length, _part(body, place + 4, place + length)

    def _pointer(self, attribute: Attribute, data: memoryview) -> External:
        if data[1] != self._form.pointer_bytes:
            raise self._page.damaged(f"column {attribute.name!r} has a pointer of unknown kind {data[1]}")
        numbers = data[-_POINTED:]
        raw, info, value_id, relation = (self._form.number(numbers[at : at + 4]) for at in range(0, _POINTED, 4))
        size = info & ((1 << _SIZE_BITS) - 1)
        if size < raw - _RAW_HEADER:
            raise self._compressed(attribute, info)
        return External(size, value_id, relation)

    def _compressed(self, attribute: Attribute, info: int) -> UsageError:
        method = info >> _SIZE_BITS
        name = COMPRESSION[method] if method < len(COMPRESSION) else f"method {method}"
        return UsageError(
            f"column {attribute.name!r} of the packed table holds values compressed by {name}, expected storage "
            "external: pack the table again, or use another strategy than 'direct'"
        )

    def _changed(self, wanted: RowVersion, why: str) -> RunError:
        return RunError(
            f"row ({wanted.block},{wanted.item}) of the packed table in {self._file.path!r} changed after it was "
            f"looked up ({why}): run it again when nothing writes to the table, or use another strategy"
        )


def _aligned(place: int, to: int) -> int:
    return -(-place // to) * to


def _part(body: memoryview, start: int, stop: int) -> memoryview:
    if stop > len(body) or stop < start:
        raise IndexError
    return body[start:stop]
