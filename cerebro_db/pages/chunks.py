"""The chunks of TOASTed values in a window of pages, as arrays.

As in the server, the row that points at a value decides whether the value is visible; of chunks only
those of aborted transactions are passed over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Tuple

import numpy as np

from cerebro_db.pages.format import Format
from cerebro_db.pages.window import Tuples, Window

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
    value_id, seq = (heads[:, at // 4].astype(np.int64) for at in (_VALUE_ID, _SEQ))
    word = heads[:, _DATA // 4]
    if form.little != form.little_headers:
        word = word.byteswap()
    header, size = _varlena(form, heads.view(np.uint8)[:, _DATA], word.astype(np.int64))
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
    little = form.little_headers
    flags = first & 3 if little else first >> 6
    short = flags & 1 == 1 if little else flags >= 2
    size = np.where(flags == 0, word >> 2 if little else word, -1) - 4
    if not short.any():
        return np.full(len(word), 4), size
    short_size = (first >> 1 if little else first & 0x7F).astype(np.int64) - 1
    return np.where(short, 1, 4), np.where(short, short_size, size)
