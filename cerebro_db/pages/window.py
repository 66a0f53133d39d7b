"""A run of pages in memory, and the tuples that their line pointers name."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import as_strided

from cerebro_db.errors import RunError, SetupError
from cerebro_db.pages.files import RelationFile
from cerebro_db.pages.format import Format

PAGE_HEADER = 24
#: Byte offsets in a page's header.
_LOWER, _UPPER, _SIZE_VERSION = 12, 14, 18
#: States of a line pointer.
STATES = ("unused", "normal", "redirect", "dead")
NORMAL = 1


@dataclass(frozen=True)
class Tuples:
    """Tuples in file order, as int64 arrays of one length."""

    #: Where each starts in the window, and its length [bytes].
    start: np.ndarray
    length: np.ndarray


class Window:
    """Room for `blocks` pages of one relation, filled anew for each run of them."""

    def __init__(self, file: RelationFile, form: Format, blocks: int) -> None:
        self._file = file
        self._form = form
        self.capacity = blocks
        # One more page, so that whatever starts in a page can be copied as if it were a whole chunk.
        self.bytes = np.zeros((blocks + 1) * form.block_size, np.uint8)
        self.u2 = self.bytes.view(form.u2)
        self.u4 = self.bytes.view(form.u4)
        self.first = 0
        self.blocks = 0
        self._counts = np.zeros(0, np.int64)

    def fill(self, first: int, blocks: int) -> None:
        """Read pages first .. first + blocks, at most `capacity`, and check their headers."""
        self._file.read(first, blocks, self.bytes[: blocks * self._form.block_size])
        self.first, self.blocks = first, blocks
        self._counts = self._checked()

    def tuples(self) -> Tuples:
        """What normal line pointers name; unused, dead and redirecting ones name no tuple."""
        size = self._form.block_size
        most = int(self._counts.max(initial=0))
        begin = PAGE_HEADER // 4
        words = self.u4.reshape(-1, size // 4)[: self.blocks, begin : begin + most].astype(np.int64)
        offset, state, length = self._form.line_pointer(words)
        block, item = np.nonzero((state == NORMAL) & (np.arange(most) < self._counts[:, None]))
        offset, length = offset[block, item], length[block, item]
        if ((offset < PAGE_HEADER) | (offset % 4 != 0) | (offset + length > size)).any():
            raise self.damaged("a line pointer leaves its page")
        return Tuples(block * size + offset, length)

    def pointer(self, item: int) -> np.ndarray:
        """Offset, state and length of line pointer `item` (from 1) of the first page."""
        if not 1 <= item <= self._counts[0]:
            return np.zeros(3, np.int64)
        return np.array(self._form.line_pointer(int(self.u4[PAGE_HEADER // 4 + item - 1])))

    def words(self, count: int) -> np.ndarray:
        """A view whose row i is the `count` 4-byte words from byte 4 * i on."""
        return as_strided(self.u4, (len(self.u4) - count, count), (4, 4))

    def damaged(self, what: str) -> RunError:
        last = self.first + self.blocks - 1
        return RunError(
            f"{what} in pages {self.first} to {last} of {self._file.path!r}: the page is damaged, or was written "
            "while it was read; run it again, or use another strategy"
        )

    def _checked(self) -> np.ndarray:
        """Line pointers of each page; 0 for a page that was never used."""
        size = self._form.block_size
        heads = self.u2.reshape(-1, size // 2)[: self.blocks, : PAGE_HEADER // 2].astype(np.int64)
        lower, upper, found = (heads[:, at // 2] for at in (_LOWER, _UPPER, _SIZE_VERSION))
        used = upper != 0
        other = found[used & (found != size + self._form.page_version)]
        if len(other):
            raise SetupError(
                f"{self._file.path!r} holds pages of {other[0] & 0xFF00} bytes in layout version {other[0] & 0xFF}, "
                f"expected {size} bytes in version {self._form.page_version}: strategy 'direct' cannot read them; "
                "use another"
            )
        if (used & ((lower < PAGE_HEADER) | (lower > size))).any():
            raise self.damaged("line pointers leave their page")
        return np.where(used, (lower - PAGE_HEADER) // 4, 0)
