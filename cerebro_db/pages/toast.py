"""Values stored in chunks: where the chunks of each lie, and their bytes put together.

Nothing is done per chunk in Python. A table that was just packed has the chunks of a value one behind
the other, but nothing relies on that: each chunk goes to the place that its own number says, wherever it
lies, and the value is complete only when every number was seen once and has the size it must have.
"""

from __future__ import annotations

from typing import Iterator, Sequence

import numpy as np
from numpy.lib.stride_tricks import as_strided

from cerebro_db.errors import RunError
from cerebro_db.pages.chunks import Chunks, chunks
from cerebro_db.pages.files import RelationFile
from cerebro_db.pages.format import Format
from cerebro_db.pages.heap import External
from cerebro_db.pages.index import Index, Wanted, runs
from cerebro_db.pages.window import Window

#: Pages that are read at once [bytes]; a window stays in the processor's cache.
WINDOW_BYTES = 4 << 20
#: Chunks that are copied at once.
PIECE = 256


def measured_chunk(file: RelationFile, form: Format) -> int:
    """Bytes of each chunk of a value but its last, in this file; at least those of the largest chunk that there is.

    A chunk with a next one is whole. Every chunk of a value that is read is checked against the size again.
    """
    window = Window(file, form, max(1, WINDOW_BYTES // form.block_size))
    largest = 1
    for start in range(0, file.blocks, window.capacity):
        window.fill(start, min(window.capacity, file.blocks - start))
        found = chunks(window, form)
        followed = (found.value_id[1:] == found.value_id[:-1]) & (found.seq[1:] == found.seq[:-1] + 1)
        if followed.any():
            return int(found.size[:-1][followed][0])
        largest = max(largest, int(found.size.max(initial=1)))
    return largest


class Toast:
    """The values of one TOAST relation. Used from one thread."""

    def __init__(self, file: RelationFile, form: Format, oid: int) -> None:
        self._file = file
        self._form = form
        self._oid = oid
        self._window = Window(file, form, max(1, WINDOW_BYTES // form.block_size))
        self._chunk = np.dtype((np.void, form.chunk_size))
        # Element i is the chunk that starts at byte i of the window.
        pages = self._window.capacity * form.block_size
        self._anywhere = as_strided(self._window.bytes[: form.chunk_size].view(self._chunk), (pages,), (1,))
        self._index = Index.of([])

    def locate(self, pointers: Sequence[External]) -> None:
        """Find these values, the only ones that `value` gives from then on.

        Reads one page in many, then the windows where values lie that were written in order; all of the
        file only when that does not find every chunk.
        """
        wanted = Wanted.of([(pointer.value_id, self._count(pointer)) for pointer in pointers])
        if not len(wanted.value_id):
            return
        starts = np.arange(0, self._file.blocks, self._window.capacity)
        likely = wanted.likely(np.array([self._sample(start) for start in starts.tolist()], np.int64))
        found = [self._runs(start, wanted) for start in starts[likely].tolist()]
        self._index = Index.of(found)
        if not self._index.holds(wanted):
            found += [self._runs(start, wanted) for start in starts[~likely].tolist()]
            self._index = Index.of(found)

    def value(self, pointer: External) -> memoryview:
        """The bytes of a value, the caller's own; raises RunError when they are not all there."""
        if pointer.relation != self._oid:
            raise self._missing(pointer, f"it lies in relation {pointer.relation}, not {self._oid}")
        count = self._count(pointer)
        out = np.empty(count, self._chunk)
        seen = np.zeros(count, np.int64)
        for first, last in self._index.extents(pointer.value_id):
            for found in self._chunks_of(first, last + 1):
                mine = found.take(found.value_id == pointer.value_id)
                self._check(pointer, mine, count)
                self._place(out, mine)
                seen += np.bincount(mine.seq, minlength=count)
        if (seen != 1).any():
            twice = f"chunk {seen.argmax()} is there more than once"
            absent = int((seen == 0).sum())
            raise self._missing(pointer, f"{absent} of its {count} chunks are not there" if absent else twice)
        return out.view(np.uint8)[: pointer.size].data

    def _place(self, out: np.ndarray, mine: Chunks) -> None:
        # In pieces: what is taken from the window is still in the processor's cache when it is put down.
        for piece in range(0, len(mine.seq), PIECE):
            here = slice(piece, piece + PIECE)
            out[mine.seq[here]] = self._anywhere[mine.start[here]]

    def _count(self, pointer: External) -> int:
        return -(-pointer.size // self._form.chunk_size)

    def _chunks_of(self, first: int, end: int) -> Iterator[Chunks]:
        """Chunks of pages first .. end, a window at a time."""
        for start in range(first, end, self._window.capacity):
            self._window.fill(start, min(self._window.capacity, end - start))
            yield chunks(self._window, self._form)

    def _sample(self, block: int) -> int:
        """The value of a page's first chunk; -1 when it has none."""
        (found,) = self._chunks_of(block, block + 1)
        return int(found.value_id[0]) if len(found.value_id) else -1

    def _runs(self, start: int, wanted: Wanted) -> np.ndarray:
        (found,) = self._chunks_of(start, min(start + self._window.capacity, self._file.blocks))
        return runs(start + found.start // self._form.block_size, found, wanted)

    def _check(self, pointer: External, mine: Chunks, count: int) -> None:
        if (mine.seq >= count).any():
            raise self._missing(pointer, f"chunk {mine.seq.max()} is there, but it has {count}")
        last = pointer.size - (count - 1) * self._form.chunk_size
        wrong = mine.size != np.where(mine.seq == count - 1, last, self._form.chunk_size)
        if wrong.any():
            raise self._missing(pointer, f"chunk {mine.seq[wrong][0]} has {mine.size[wrong][0]} bytes")

    def _missing(self, pointer: External, why: str) -> RunError:
        return RunError(
            f"value {pointer.value_id} of {pointer.size} bytes is not whole in {self._file.path!r} ({why}): the table "
            "changed since it was looked up, or is damaged; run it again, or use another strategy"
        )
