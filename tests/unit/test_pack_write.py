"""How rows are cut into buffers."""

from __future__ import annotations

from typing import Optional

import pytest

from cerebro_db.errors import UsageError
from cerebro_db.pack_write import BUFFER_BYTES, MOST_BYTES, cut


def test_buffers_have_about_the_bytes_that_are_meant() -> None:
    plan = cut(60_000, 4, 788, 784, None)
    assert plan.buffers == 12
    assert plan.buffer_size * 788 <= BUFFER_BYTES


@pytest.mark.parametrize(
    ("rows", "segments", "size", "buffers"),
    [(10, 4, None, 4), (3, 4, None, 3), (100, 4, 10, 12), (100, 4, 1, 100), (10, 4, 1, 8), (1, 1, None, 1)],
)
def test_buffers_are_a_multiple_of_the_segments(
    rows: int, segments: int, size: Optional[int], buffers: int
) -> None:
    assert cut(rows, segments, 8, 8, size).buffers == buffers


def test_a_buffer_too_large_for_a_value_is_refused() -> None:
    assert cut(1000, 1, 512 << 10, 512 << 10, 1000).buffers == 1
    with pytest.raises(UsageError, match="a buffer of 1025 rows would take 512 MB, .* at most 1024"):
        cut(1025, 1, 512 << 10, 512 << 10, 9999)
    with pytest.raises(UsageError, match="one row takes 512 MB"):
        cut(1, 1, 1, MOST_BYTES + 1, None)
