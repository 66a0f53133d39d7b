"""Binary COPY -> the fields of its rows, as views of what arrived; and back.

    "PGCOPY\n\xff\r\n\0"  flags int32  length int32, extension
    per row: count int16, per field: length int32 (-1: NULL), bytes
    -1 int16

All numbers are big-endian. Flag 16, oids before the fields, is of old servers and refused, as are flags unknown.
"""

from __future__ import annotations

import struct
from typing import Iterable, Iterator, List, Optional, Sequence, Tuple, Union

from cerebro_db.errors import RunError

SIGNATURE = b"PGCOPY\n\xff\r\n\0"
_HEAD = struct.Struct("!11sii")
_COUNT = struct.Struct("!h")
_LENGTH = struct.Struct("!i")
#: What a stream begins and ends with.
HEADER = _HEAD.pack(SIGNATURE, 0, 0)
END = _COUNT.pack(-1)
#: Flags that change what follows.
_CRITICAL = 0xFFFF0000 | 1 << 16
#: One row: a view per field, None for NULL. It keeps the piece that it came in, and nothing more.
Fields = Tuple[Optional[memoryview], ...]


def encoded(rows: Iterable[Sequence[bytes]]) -> bytes:
    """A whole stream of rows, without NULLs."""
    pieces = [HEADER]
    for row in rows:
        pieces.append(_COUNT.pack(len(row)))
        for field in row:
            pieces += [_LENGTH.pack(len(field)), field]
    return b"".join([*pieces, END])


class CopyParser:
    """Takes the stream in pieces cut anywhere; whole rows are not copied, cut ones once or twice."""

    def __init__(self) -> None:
        self._pieces: List[Union[bytes, memoryview]] = []
        self._have = 0
        # Bytes that must be there before looking again is of use.
        self._need = _HEAD.size
        self._begun = False
        #: Whether the end of the stream has been seen.
        self.ended = False

    def feed(self, piece: bytes) -> Iterator[Fields]:
        """Rows that are whole now. Raises RunError for a stream that is no binary COPY."""
        self._pieces.append(piece)
        self._have += len(piece)
        if self._have < self._need:
            return
        whole = memoryview(self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces))
        place = 0 if self.ended else self._skip_head(whole)
        while place >= 0 and not self.ended:
            row, place = self._row(whole, place)
            if row is not None:
                yield row
        if self.ended and place != len(whole):
            raise RunError("binary COPY goes on after its end; use another strategy")

    def _skip_head(self, whole: memoryview) -> int:
        """Where rows begin; negative when the head is not whole."""
        if self._begun:
            return 0
        signature, flags, extension = _HEAD.unpack_from(whole)
        if signature != SIGNATURE or flags & _CRITICAL or extension < 0:
            raise RunError("the server's answer to COPY is not the binary format known here; use another strategy")
        if len(whole) < _HEAD.size + extension:
            self._wait(whole, 0, _HEAD.size + extension)
            return -1
        self._begun = True
        return _HEAD.size + int(extension)

    def _row(self, whole: memoryview, start: int) -> Tuple[Optional[Fields], int]:
        """The row at `start` and where the next begins; None and -1 when it is not whole."""
        place = start + _COUNT.size
        if place > len(whole):
            return self._wait(whole, start, place)
        (count,) = _COUNT.unpack_from(whole, start)
        if count < 0:
            self.ended = True
            self._pieces, self._have, self._need = [], 0, 1
            return None, place
        fields: List[Optional[memoryview]] = []
        for _ in range(count):
            begin = place + _LENGTH.size
            if begin > len(whole):
                return self._wait(whole, start, begin)
            (length,) = _LENGTH.unpack_from(whole, place)
            place = begin + max(0, length)
            if place > len(whole):
                return self._wait(whole, start, place)
            fields.append(None if length < 0 else whole[begin:place])
        return tuple(fields), place

    def _wait(self, whole: memoryview, start: int, end: int) -> Tuple[None, int]:
        """Keep what is there of a row that needs bytes up to `end` at least."""
        rest = whole[start:]
        self._pieces, self._have, self._need = [rest] if len(rest) else [], len(rest), end - start
        return None, -1
