"""Arrays as PostgreSQL sends them, stripped to their elements; whole byte strings."""

from __future__ import annotations

import struct
from typing import Any, Sequence

import numpy as np
import pytest

from cerebro_db.encoding import strip


def sent(
    values: Sequence[Any], kind: str = "h", dims: Sequence[int] = (), low: int = 1, null: bool = False
) -> bytes:
    """One array as array_send writes it."""
    dims = dims or (len(values),)
    head = struct.pack(">iii", len(dims), int(null), 21) + b"".join(struct.pack(">ii", n, low) for n in dims)
    size = struct.calcsize(">" + kind)
    return head + b"".join(
        struct.pack(">i", -1) if value is None else struct.pack(f">i{kind}", size, value) for value in values
    )


def test_bytes_of_small_integers() -> None:
    data = sent([1, 2, 255]) + sent([0, 7, 9])
    assert strip(data, 2, 3, ">i2", "|u1") == b"\x01\x02\xff\x00\x07\x09"
    assert strip(data, 2, 3, ">i2", "<i2") == b"\x01\0\x02\0\xff\0\0\0\x07\0\x09\0"


def test_floats_of_two_dimensions_and_any_lower_bound() -> None:
    data = sent([1.5, 2.5], "d", (2, 1)) + sent([3.5, -1.0], "d", (2, 1), low=0)
    got = strip(data, 2, 2, ">f8", "<f4")
    assert got == np.array([[1.5, 2.5], [3.5, -1.0]], "<f4").tobytes()


@pytest.mark.parametrize(
    ("data", "rows", "elements", "wire", "dtype"),
    [
        (sent([1, 256]), 1, 2, ">i2", "|u1"),
        (sent([1, -1]), 1, 2, ">i2", "|u1"),
        (sent([1, None], null=True), 1, 2, ">i2", "<i2"),
        (sent([1, 2, 3]), 1, 2, ">i2", "<i2"),
        (sent([1, 2]) + sent([1]), 2, 2, ">i2", "<i2"),
        (sent([1, 2], dims=(2, 1)) + sent([1, 2], dims=(1, 2)), 2, 2, ">i2", "<i2"),
        (sent([1.0, float("nan")], "f"), 1, 2, ">f4", "<f4"),
        (sent([1.0, float("-inf")], "f"), 1, 2, ">f4", "<f4"),
        (sent([1.0, 1e39], "d"), 1, 2, ">f8", "<f4"),
        # A NULL beside a longer array: the length is right, the content is not.
        (sent([1, None], null=True) + sent([1, 2, 3])[:-4], 2, 2, ">i2", "<i2"),
    ],
)
def test_what_does_not_fit_gives_none(data: bytes, rows: int, elements: int, wire: str, dtype: str) -> None:
    assert strip(data, rows, elements, wire, dtype) is None
