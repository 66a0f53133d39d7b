"""Binary COPY, cut anywhere, gives the fields that were written."""

from __future__ import annotations

import struct
from typing import List, Optional, Tuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cerebro_db.copy_format import SIGNATURE, CopyParser, encoded
from cerebro_db.errors import RunError

Rows = List[Tuple[Optional[bytes], ...]]

HEAD = SIGNATURE + struct.pack("!ii", 0, 0)
END = struct.pack("!h", -1)


def written(rows: Rows, extension: bytes = b"") -> bytes:
    parts = [SIGNATURE, struct.pack("!ii", 0, len(extension)), extension]
    for row in rows:
        parts.append(struct.pack("!h", len(row)))
        for field in row:
            parts.append(struct.pack("!i", -1) if field is None else struct.pack("!i", len(field)) + field)
    return b"".join([*parts, END])


def parsed(pieces: List[bytes]) -> Rows:
    parser = CopyParser()
    rows = [tuple(None if f is None else bytes(f) for f in row) for piece in pieces for row in parser.feed(piece)]
    assert parser.ended
    return rows


FIELDS = st.one_of(st.none(), st.binary(max_size=40))
ROWS = st.lists(st.lists(FIELDS, max_size=4).map(tuple), max_size=6)


@given(ROWS, st.binary(max_size=9), st.data())
def test_rows_come_out_however_the_stream_is_cut(rows: Rows, extension: bytes, data: st.DataObject) -> None:
    stream = written(rows, extension)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    pieces = [stream[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(stream)])]
    assert parsed(pieces) == rows


def test_a_byte_at_a_time() -> None:
    rows: Rows = [(b"abc", None, b""), (), (b"x" * 300, b"y", None)]
    assert parsed([bytes([byte]) for byte in written(rows)]) == rows


def test_a_row_that_comes_whole_is_a_view_of_what_came() -> None:
    parser = CopyParser()
    assert list(parser.feed(HEAD)) == []
    piece = struct.pack("!hi", 1, 5) + b"hello"
    ((field,),) = parser.feed(piece)
    assert field is not None
    assert field.obj is piece


def test_a_large_field_in_many_pieces_is_put_together_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parser = CopyParser()
    list(parser.feed(HEAD))
    list(parser.feed(struct.pack("!hi", 1, 1_000_000)))
    for _ in range(999):
        assert list(parser.feed(b"z" * 1000)) == []
        assert len(parser._pieces) > 1  # kept as they came
    ((field,),) = parser.feed(b"z" * 1000)
    assert bytes(field or b"") == b"z" * 1_000_000


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        (b"PGCOPX\n\xff\r\n\0" + bytes(8), "not the binary format"),
        (SIGNATURE + struct.pack("!ii", 1 << 16, 0), "not the binary format"),
        (SIGNATURE + struct.pack("!ii", 0, -1), "not the binary format"),
        (HEAD + END + b"more", "goes on after its end"),
    ],
)
def test_another_stream_is_refused(stream: bytes, message: str) -> None:
    with pytest.raises(RunError, match=message):
        list(CopyParser().feed(stream))


def test_what_follows_the_end_later_is_refused() -> None:
    parser = CopyParser()
    list(parser.feed(HEAD + END))
    assert parser.ended
    with pytest.raises(RunError, match="goes on after its end"):
        list(parser.feed(b"x"))


@given(st.lists(st.lists(st.binary(max_size=40), min_size=1, max_size=3), max_size=4))
def test_what_is_encoded_is_parsed(rows: List[List[bytes]]) -> None:
    parser = CopyParser()
    assert [[bytes(field) for field in row if field is not None] for row in parser.feed(encoded(rows))] == rows
    assert parser.ended
