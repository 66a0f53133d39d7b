"""Arrays to bytes in SQL alone: the bytes that NumPy makes of what array_send gives, for every element type."""

from __future__ import annotations

from typing import Any, List, Optional

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cerebro_db.client import PsycopgDatabase
from cerebro_db.encoding import strip
from cerebro_db.sqltext import Fragment

WIRES = {"int2": ">i2", "int4": ">i4", "int8": ">i8", "float4": ">f4", "float8": ">f8"}
#: 4 * 2^-149: the float4 whose bytes are those of a length.
LENGTH = "5.605194e-45"


def both(database: PsycopgDatabase, kind: str, items: str, elements: int, dtype: str = ">f4") -> List[Optional[bytes]]:
    """The bytes by SQL and by NumPy; None where either refuses."""
    ours = {
        ">f4": f"cerebro_private.real_bytes({_real(kind)}, {elements})",
        "|u1": f"cerebro_private.whole_bytes(a, '{_prefix(kind, 1)}', {elements})",
        ">i2": f"cerebro_private.whole_bytes(a, '{_prefix(kind, 2)}', {elements})",
    }[dtype]
    array = f"(select %(items)s::text::{kind}[] as a) t"
    (row,) = database.rows(Fragment(f"select {ours} as ours, array_send(a) as sent from {array}"), items=items)
    size = {"|u1": 1, ">i2": 2, ">f4": 4}[dtype] * elements
    made = row["ours"] if row["ours"] is not None and len(row["ours"]) == size else None
    return [made, strip(row["sent"], 1, elements, WIRES[kind], dtype)]


def _real(kind: str) -> str:
    return {"float4": "a", "float8": "cerebro_private.narrowed(a)"}.get(kind, "a::real[]")


def _prefix(kind: str, stored: int) -> str:
    sent = int(WIRES[kind][2:])
    return f"{sent:08x}" + "00" * (sent - stored)


def text(items: List[Any]) -> str:
    return "{" + ",".join("null" if item is None else str(item) for item in items) + "}"


CASES = [
    ("float4", ["1.5", "-2.25", "3.4028235e38", "0", "-0"]),
    ("float4", [LENGTH, "1", LENGTH, LENGTH]),
    ("float4", ["1", "nan"]), ("float4", ["1", "infinity"]), ("float4", ["-infinity", "1"]), ("float4", ["1", None]),
    ("float8", ["1e-300", "-1e-300", "7.006492321624085e-46", "7.1e-46", "1.4e-45", LENGTH, "0.1"]),
    ("float8", ["3.4028235677973362e38", "1"]), ("float8", ["3.4028235677973366e38", "1"]),
    ("float8", ["1", "1e39"]), ("float8", ["-1e39", "1e-300"]), ("float8", ["nan", "1e-300"]), ("float8", [None, "1"]),
    ("int2", [0, 4, -4, 32767, -32768]), ("int4", [4, 16777217, -2147483648, 1078]),
    ("int8", [9007199254740993, -9223372036854775808, 4]), ("int4", [None, 4]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "items"), CASES)
def test_reals(pg_module: PsycopgDatabase, kind: str, items: List[Any]) -> None:
    ours, theirs = both(pg_module, kind, text(items), len(items))
    assert ours == theirs


WHOLES = [
    [0, 255], [0, 0, 0], [4, 4, 4], [2, 8, 4, 0], [256, 0], [-1, 0], [1024, 4, 0], [None, 4], [4, None], [32767, 4],
]  # fmt: skip


@pytest.mark.parametrize("kind", ["int2", "int4", "int8"])
@pytest.mark.parametrize("items", WHOLES)
def test_wholes(pg_module: PsycopgDatabase, kind: str, items: List[Any]) -> None:
    ours, theirs = both(pg_module, kind, text(items), len(items), "|u1")
    assert ours == theirs
    if kind == "int2":
        ours, theirs = both(pg_module, kind, text(items), len(items), ">i2")
        assert ours == theirs


def test_other_numbers_of_elements_are_refused(pg_module: PsycopgDatabase) -> None:
    assert both(pg_module, "float4", "{1,2,3}", 2) == [None, None]
    assert both(pg_module, "int4", "{1,2,3}", 4, "|u1") == [None, None]
    # Six too few elements, and one that is seven bytes too long: 14 - 7 + 7.
    assert both(pg_module, "int4", "{1,2,3,4,5,6,65536}", 14, "|u1") == [None, None]


def test_dimensions_and_lower_bounds_do_not_matter(pg_module: PsycopgDatabase) -> None:
    for items in ("{{1,2},{3,4}}", "[5:6][0:1]={{1,2},{3,4}}", "{{{1},{2}},{{3},{4}}}"):
        ours, theirs = both(pg_module, "float4", items, 4)
        assert ours == theirs is not None


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from(["int2", "int4", "int8"]),
    items=st.lists(st.sampled_from([0, 2, 4, 8, 32, 64, 128, 255, 256, 512, 1024, 2048, -1]), min_size=1, max_size=12),
)
def test_no_whole_number_is_mistaken_for_a_length(pg_module: PsycopgDatabase, kind: str, items: List[int]) -> None:
    ours, theirs = both(pg_module, kind, text(items), len(items), "|u1")
    assert ours == theirs
