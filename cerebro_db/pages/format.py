"""What a server says of its files, and how it writes numbers and line pointers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Tuple

import numpy as np

#: Ways to compress a value, by their number in a TOAST pointer.
COMPRESSION = ("pglz", "lz4")

_UNALIGNED = {"c": 1, "s": 2, "i": 4}


@dataclass(frozen=True)
class Format:
    """Facts of one server."""

    #: Size of a page [bytes].
    block_size: int
    #: Pages in each file of a relation but the last.
    segment_blocks: int
    #: Data in each chunk of a TOASTed value but the last [bytes]; 0 where the server does not tell.
    chunk_size: int
    #: Largest alignment of a type, and that of tuples [bytes].
    max_align: int
    #: Byte order, as in sys.byteorder.
    order: str = "little"
    #: The version that pages bear; all that are read here have the layout of PostgreSQL 8.3 and later.
    page_version: int = 4
    #: Bytes of a pointer to a TOASTed value; its tag is the same number.
    pointer_bytes: int = 18
    #: Whether values of any length say it in the order of the network, on every machine.
    network_order: bool = False

    @property
    def little(self) -> bool:
        return self.order == "little"

    @property
    def little_headers(self) -> bool:
        """Whether the header of a value of any length is little-endian."""
        return self.little and not self.network_order

    @property
    def u2(self) -> np.dtype[Any]:
        return np.dtype("<u2" if self.little else ">u2")

    @property
    def u4(self) -> np.dtype[Any]:
        return np.dtype("<u4" if self.little else ">u4")

    def number(self, data: memoryview) -> int:
        """An unsigned number as the server wrote it."""
        return int.from_bytes(data, "little" if self.little else "big")

    def header(self, data: memoryview) -> int:
        """The first four bytes of a value of any length, as a number."""
        return int.from_bytes(data, "little" if self.little_headers else "big")

    def alignment(self, code: str) -> int:
        """Bytes behind a letter of pg_attribute.attalign."""
        return self.max_align if code == "d" else _UNALIGNED[code]

    def line_pointer(self, word: Any) -> Tuple[Any, Any, Any]:
        """Offset in the page, state and length of a line pointer, or of an array of them."""
        first, state, last = word & 0x7FFF, (word >> 15) & 3, word >> 17
        return (first, state, last) if self.little else (last, state, first)


@dataclass(frozen=True)
class Attribute:
    """A column as tuples hold it, dropped ones too, in order."""

    name: str
    #: pg_attribute.attlen: bytes, -1 for a varlena, -2 for a C string.
    length: int
    #: pg_attribute.attalign.
    align: str
