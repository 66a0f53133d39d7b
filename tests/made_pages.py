"""Pages of a table's files made by hand, and what is known of those of a real server (tests/data/pages)."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

from cerebro_db.pages.format import Format

GOLDEN = Path(__file__).resolve().parent / "data" / "pages"
FACTS: Dict[str, Any] = json.loads((GOLDEN / "facts.json").read_text("utf-8"))
PAGE = FACTS["form"]["block_size"]
Piece = Tuple[int, int, bytes]
COMMITTED, ABORTED = 0x0900, 0x0A00
CHUNK = 100


def content(row: int, column: str, size: int) -> bytes:
    return bytes((i * (2 * row + 3) + i // 251 + len(column)) % 256 for i in range(size))


def form(segment_blocks: int = 131072, order: str = FACTS["order"], **other: int) -> Format:
    return Format(**{**FACTS["form"], **other}, segment_blocks=segment_blocks, order=order)


def page(tuples: Sequence[Optional[bytes]], order: str = "little", version: int = 4, flags: int = 1) -> bytes:
    """A page of tuples; None is a dead line pointer."""
    sign = "<" if order == "little" else ">"
    upper, pointers, body = PAGE, [], {}
    for item in tuples:
        if item is None:
            pointers.append((0, 3, 0))
            continue
        upper = (upper - len(item)) // 8 * 8
        body[upper] = item
        pointers.append((upper, flags, len(item)))
    words = [a | s << 15 | n << 17 if order == "little" else a << 17 | s << 15 | n for a, s, n in pointers]
    lower = 24 + 4 * len(words)
    out = bytearray(PAGE)
    out[:24] = struct.pack(sign + "QHHHHHHI", 0, 0, 0, lower, upper, PAGE, PAGE | version, 0)
    out[24:lower] = struct.pack(f"{sign}{len(words)}I", *words)
    for place, item in body.items():
        out[place : place + len(item)] = item
    return bytes(out)


def header(order: str, columns: int, info: int, xmin: int = 5) -> bytes:
    return struct.pack(("<" if order == "little" else ">") + "IIIHHHHHBx", xmin, 0, 0, 0, 0, 0, columns, info, 24)


def chunk(
    value_id: int, seq: int, data: bytes, order: str = "little", info: int = COMMITTED, network: bool = False
) -> bytes:
    sign, little = "<" if order == "little" else ">", order == "little" and not network
    if len(data) < 20:  # a short header
        size = bytes([(len(data) + 1) << 1 | 1 if little else 0x80 | (len(data) + 1)])
    else:
        size = struct.pack("<I", (len(data) + 4) << 2) if little else struct.pack(">I", len(data) + 4)
    return header(order, 3, info) + struct.pack(sign + "Ii", value_id, seq) + size + data


def pieces(value_id: int, data: bytes) -> List[Piece]:
    return [(value_id, at // CHUNK, data[at : at + CHUNK]) for at in range(0, len(data), CHUNK)]
