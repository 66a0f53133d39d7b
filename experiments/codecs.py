"""Compression without loss of float32 states: the bytes of equal weight put together, then a general codec."""

from __future__ import annotations

import time
import zlib
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Callable, Dict, Tuple

import numpy as np

#: Bytes of a float32.
WIDTH = 4


def shuffled(blob: bytes) -> bytes:
    """First bytes of all floats, then second ones, and so on; what does not fill a float stays at the end."""
    whole = len(blob) // WIDTH * WIDTH
    parts = np.frombuffer(blob, np.uint8, whole).reshape(-1, WIDTH)
    return np.ascontiguousarray(parts.T).tobytes() + blob[whole:]


def unshuffled(blob: bytes) -> bytes:
    """What was shuffled."""
    whole = len(blob) // WIDTH * WIDTH
    parts = np.frombuffer(blob, np.uint8, whole).reshape(WIDTH, -1)
    return np.ascontiguousarray(parts.T).tobytes() + blob[whole:]


@dataclass(frozen=True)
class Measured:
    #: Size before over size after.
    ratio: float
    #: Bytes of the state per second, through shuffle and codec [MB/s].
    in_mb_s: float
    out_mb_s: float


def codecs() -> Dict[str, Tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]]:
    """Compress and decompress, by name; zstd where the package is installed."""
    found: Dict[str, Tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {
        "zlib 1": (lambda blob: zlib.compress(blob, 1), zlib.decompress)
    }
    if find_spec("zstandard"):
        import zstandard

        for level in (1, 3):
            found[f"zstd {level}"] = (
                zstandard.ZstdCompressor(level=level).compress,
                zstandard.ZstdDecompressor().decompress,
            )
    return found


def measure(name: str, blob: bytes) -> Measured:
    """Compress and decompress once; the result is compared with the original."""
    compress, decompress = codecs()[name]
    started = time.perf_counter()
    packed = compress(shuffled(blob))
    between = time.perf_counter()
    again = unshuffled(decompress(packed))
    ended = time.perf_counter()
    assert again == blob, f"{name} did not give a state back"
    return Measured(
        ratio=len(blob) / len(packed),
        in_mb_s=len(blob) / 1e6 / (between - started),
        out_mb_s=len(blob) / 1e6 / (ended - between),
    )
