"""Values stored in chunks: where the chunks of each lie, and their bytes put together.

Nothing is done per chunk in Python. A table that was just packed has the chunks of a value one behind
the other, but nothing relies on that: each chunk goes to the place that its own number says, wherever it
lies, and the value is complete only when every number was seen once and has the size it must have.

As in the server, the row that points at a value decides whether the value is visible; of chunks only
those of aborted transactions are passed over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterator, List, Tuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from cerebro_db.errors import RunError
from cerebro_db.pages.files import RelationFile
from cerebro_db.pages.format import Format
from cerebro_db.pages.heap import External
from cerebro_db.pages.window import Tuples, Window

#: Pages that are read at once [bytes]; a window stays in the processor's cache.
WINDOW_BYTES = 4 << 20
#: Chunks that are copied at once.
PIECE = 256
#: Pages between two runs of chunks that are read along rather than passed over.
GAP = 16

#: Byte offsets in a tuple: of its header, then of its three columns, none of which is NULL.
_XMIN, _INFOMASK2, _INFOMASK, _HOFF = 0, 18, 20, 22
_VALUE_ID, _SEQ, _DATA, _HEAD = 24, 28, 32, 36
_ATTRIBUTES, _COLUMNS = 0x07FF, 3
_HAS_NULL, _XMIN_HINTS, _XMIN_INVALID = 0x0001, 0x0300, 0x0200


@dataclass(frozen=True)
class Chunks:
    """Chunks in file order, as int64 arrays of one length."""

    value_id: np.ndarray
    #: Number of the chunk in its value, from 0.
    seq: np.ndarray
    #: Where its data starts in the window, and its bytes.
    start: np.ndarray
    size: np.ndarray

    def take(self, which: np.ndarray) -> Chunks:
        return Chunks(self.value_id[which], self.seq[which], self.start[which], self.size[which])


def chunks(window: Window, form: Format) -> Chunks:
    """Every chunk in a window of TOAST pages that no aborted transaction wrote."""
    tuples = window.tuples()
    # One copy of all headers: what is looked at more than once then lies close together.
    heads = window.words(_HEAD // 4)[tuples.start // 4]
    written = _check_written(window, heads, tuples)
    value_id, seq, word = (heads[:, at // 4].astype(np.int64) for at in (_VALUE_ID, _SEQ, _DATA))
    header, size = _varlena(form, heads.view(np.uint8)[:, _DATA], word)
    if ((size < 0) | (_DATA + header + size > tuples.length)).any():
        raise window.damaged("a chunk is compressed, or leaves its tuple")
    found = Chunks(value_id, seq, tuples.start + _DATA + header, size)
    return found if written.all() else found.take(written)


def _check_written(window: Window, heads: np.ndarray, tuples: Tuples) -> np.ndarray:
    """Which tuples a transaction wrote that did not abort; all must be chunks."""
    pairs = heads.view(window.u2.dtype)
    info = pairs[:, _INFOMASK // 2]
    unlike = (pairs[:, _INFOMASK2 // 2] & _ATTRIBUTES != _COLUMNS) | (info & _HAS_NULL != 0)
    unlike |= (heads.view(np.uint8)[:, _HOFF] != _VALUE_ID) | (tuples.length <= _DATA)
    if unlike.any():
        raise window.damaged("a tuple is no chunk of a TOAST relation")
    written: np.ndarray = (info & _XMIN_HINTS != _XMIN_INVALID) & (heads[:, _XMIN // 4] != 0)
    return written


def _varlena(form: Format, first: np.ndarray, word: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """Bytes of the header of each value, one or four, and of its data; negative when it is not plain."""
    flags = first & 3 if form.little else first >> 6
    short = flags & 1 == 1 if form.little else flags >= 2
    size = np.where(flags == 0, word >> 2 if form.little else word, -1) - 4
    if not short.any():
        return np.full(len(word), 4), size
    short_size = (first >> 1 if form.little else first & 0x7F).astype(np.int64) - 1
    return np.where(short, 1, 4), np.where(short, short_size, size)


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
        self._index = _index(self._chunks_of(0, file.blocks))

    def value(self, pointer: External) -> memoryview:
        """The bytes of a value, the caller's own; raises RunError when they are not all there."""
        if pointer.relation != self._oid:
            raise self._missing(pointer, f"it lies in relation {pointer.relation}, not {self._oid}")
        count = -(-pointer.size // self._form.chunk_size)
        out = np.empty(count, self._chunk)
        seen = np.zeros(count, np.int64)
        for first, last in self._index.extents(pointer.value_id):
            for _, found in self._chunks_of(first, last + 1):
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

    def _chunks_of(self, first: int, end: int) -> Iterator[Tuple[np.ndarray, Chunks]]:
        """Chunks of pages first .. end, a window at a time, each with its page's number."""
        for start in range(first, end, self._window.capacity):
            self._window.fill(start, min(self._window.capacity, end - start))
            found = chunks(self._window, self._form)
            yield start + found.start // self._form.block_size, found

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


@dataclass(frozen=True)
class Index:
    """Runs of chunks that follow each other in number and in the file, by value: int64 arrays."""

    value_id: np.ndarray
    first: np.ndarray
    last: np.ndarray

    def extents(self, value_id: int) -> List[Tuple[int, int]]:
        """Ranges of pages, ends included, that hold a value; near ones are one."""
        low, high = np.searchsorted(self.value_id, [value_id, value_id + 1])
        order = np.argsort(self.first[low:high], kind="stable")
        first, last = self.first[low:high][order], np.maximum.accumulate(self.last[low:high][order])
        apart = np.nonzero(first[1:] > last[:-1] + GAP)[0]
        starts = first[np.concatenate([[0], apart + 1])] if len(first) else first
        ends = last[np.concatenate([apart, [len(last) - 1]])] if len(last) else last
        return list(zip(starts.tolist(), ends.tolist()))


def _index(windows: Iterator[Tuple[np.ndarray, Chunks]]) -> Index:
    parts = [np.zeros((3, 0), np.int64), *(_runs(block, found) for block, found in windows)]
    value_id, first, last = np.concatenate(parts, axis=1)
    order = np.argsort(value_id, kind="stable")
    return Index(value_id[order], first[order], last[order])


def _runs(block: np.ndarray, found: Chunks) -> np.ndarray:
    """Value, first and last page of each run of chunks in a window: [3, runs]."""
    next_one = (found.value_id[1:] == found.value_id[:-1]) & (found.seq[1:] == found.seq[:-1] + 1)
    breaks = np.nonzero(~next_one)[0] + 1
    starts = np.concatenate([[0], breaks])[: len(block)]
    ends = np.concatenate([breaks, [len(block)]])[: len(starts)] - 1
    return np.stack([found.value_id[starts], block[starts], block[ends]])
