"""Keep freed memory for the next batch.

A training loop allocates and frees the same few megabytes in every step. The C library hands such blocks
back to the system and asks for them again, which costs a page fault for every 4 kB: up to a fifth of the
time of a small network inside a backend. A training session ends with its run, and its memory with it; one that is
kept for another run gives its memory back.
"""

from __future__ import annotations

import ctypes
import gc
from contextlib import contextmanager
from typing import Iterator

#: Names and numbers of <malloc.h>.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
#: Blocks below this come from the heap instead of a mapping of their own; the most that glibc takes [bytes].
_LARGEST_BLOCK = 32 << 20
#: Free memory at the top of the heap that is kept [bytes].
_KEPT = 1 << 30
#: What both are at first [bytes].
_USUAL = 128 << 10


def keep_freed() -> bool:
    """Tell malloc to reuse what is freed; False where it cannot be told."""
    tell = getattr(ctypes.CDLL(None), "mallopt", None)
    if tell is None:  # another C library
        return False
    settings = ((_M_MMAP_THRESHOLD, _LARGEST_BLOCK), (_M_TRIM_THRESHOLD, _KEPT))
    return all(tell(name, value) == 1 for name, value in settings)


@contextmanager
def kept_freed() -> Iterator[None]:
    """`keep_freed` inside a process that does other things afterwards, with its memory given back at the end."""
    kept = keep_freed()
    try:
        yield
    finally:
        if kept:
            for name in (_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD):
                ctypes.CDLL(None).mallopt(name, _USUAL)
            _trim()


def give_back() -> None:
    """Return what is freed to the system, as before a long rest."""
    gc.collect()
    _trim()


def _trim() -> None:
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
