"""The page reader on files of a real server (tests/data/pages, by the script beside them), and on made pages."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

import numpy as np
import pytest

from cerebro_db.errors import RunError, SetupError, UsageError
from cerebro_db.pages import index, toast
from cerebro_db.pages.files import RelationFile
from cerebro_db.pages.format import Attribute, Format
from cerebro_db.pages.heap import External, Heap, RowVersion
from cerebro_db.pages.reader import TableFiles, TableReader
from cerebro_db.pages.toast import Toast
from cerebro_db.pages.window import STATES, Window
from tests.made_pages import (
    ABORTED,
    CHUNK,
    COMMITTED,
    FACTS,
    GOLDEN,
    PAGE,
    chunk,
    content,
    form,
    header,
    page,
    pieces,
)  # fmt: skip

#: As make.py wrote them: the sizes of columns a and b of each row.
SIZES = {
    0: (0, 1), 1: (5, 126), 2: (127, 1500), 4: (1997, 1997), 5: (5988, 20000), 6: (None, 40), 7: (41, None),
    8: (None, None), 9: (7984, 100), 11: (60, 61),
}  # fmt: skip


def attributes() -> List[Attribute]:
    return [Attribute(*item) for item in FACTS["attributes"]]


def places() -> Dict[int, RowVersion]:
    return {row["id"]: RowVersion(row["block"], row["item"], row["xmin"]) for row in FACTS["rows"]}


def golden(folder: Path, by: Format, rows: Sequence[int], columns: Sequence[str]) -> TableReader:
    paths = {name: str(folder / f"{name}.bin") for name in ("heap", "toast")}
    table = TableFiles(paths["heap"], paths["toast"], FACTS["toast_oid"], attributes())
    return TableReader(table, by, [places()[row] for row in rows], columns)


def check_golden(folder: Path, by: Format) -> None:
    assert set(places()) == set(SIZES)
    for at, (name, column) in enumerate((("a", "a"), ("b", "bb"))):
        sizes = {row: size[at] for row, size in SIZES.items() if size[at] is not None}
        reader = golden(folder, by, list(sizes), [name])
        for number, (row, size) in enumerate(sizes.items()):
            assert bytes(reader.row(number)[name]) == content(row, column, size or 0)
        for row in set(SIZES) - set(sizes):
            with pytest.raises(UsageError, match=f"column '{name}' of the packed table is NULL"):
                golden(folder, by, [row], [name])


# -- files of a real server ------------------------------------------------------------------------


def test_every_row_reads_as_it_was_written() -> None:
    check_golden(GOLDEN, form())


def test_other_columns_are_found_behind_nulls_and_dropped_ones() -> None:
    heap = Heap(RelationFile(str(GOLDEN / "heap.bin"), form()), form(), attributes())
    for row, place in places().items():
        found = heap.row(place)
        assert int.from_bytes(found["id"], "little") == int.from_bytes(found["big"], "little") == row  # type: ignore
        assert bytes(found["name"]) == b"n" * (row * 20)  # type: ignore
        assert bytes(found["half"]) == struct.pack("<h", 77 if row == 11 else row)  # type: ignore
        assert found["flag"] is None if row % 3 == 0 else bytes(found["flag"]) == b"\1"  # type: ignore
        assert found.get("late") is None
        assert ("late" in found) == (row >= 4)


def test_a_relation_may_lie_in_several_files(tmp_path: Path) -> None:
    shutil.copy(GOLDEN / "heap.bin", tmp_path)
    data = (GOLDEN / "toast.bin").read_bytes()
    for number in range(0, len(data) // PAGE, 3):
        name = f"toast.bin.{number // 3}" if number else "toast.bin"
        (tmp_path / name).write_bytes(data[number * PAGE : (number + 3) * PAGE])
    assert len(list(tmp_path.glob("toast.bin.*"))) == 2
    assert RelationFile(str(tmp_path / "toast.bin"), form(3)).blocks == len(data) // PAGE
    check_golden(tmp_path, form(3))


@pytest.mark.parametrize("pages", [1, 2, 100])
def test_pages_may_lie_in_any_order_and_some_be_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pages: int
) -> None:
    monkeypatch.setattr(toast, "WINDOW_BYTES", pages * PAGE)
    monkeypatch.setattr(index, "GAP", 1)
    shutil.copy(GOLDEN / "heap.bin", tmp_path)
    data = (GOLDEN / "toast.bin").read_bytes()
    whole = [data[at : at + PAGE] for at in range(0, len(data), PAGE)]
    mixed = [page for at in np.random.RandomState(3).permutation(len(whole)) for page in (whole[at], bytes(PAGE))]
    (tmp_path / "toast.bin").write_bytes(b"".join(mixed))
    check_golden(tmp_path, form())


def test_line_pointers_that_name_no_tuple_are_refused() -> None:
    window = Window(RelationFile(str(GOLDEN / "heap.bin"), form()), form(), 1)
    window.fill(0, 1)
    states = {item: STATES[int(window.pointer(item)[1])] for item in range(1, 40)}
    assert {"unused", "normal", "redirect"} <= set(states.values())
    heap = Heap(RelationFile(str(GOLDEN / "heap.bin"), form()), form(), attributes())
    for item, state in states.items():
        if state != "normal":
            with pytest.raises(RunError, match=f"its line pointer is {state}"):
                heap.row(RowVersion(0, item, 1))


def test_a_deleted_row_and_a_version_of_another_transaction_are_refused() -> None:
    heap = Heap(RelationFile(str(GOLDEN / "heap.bin"), form()), form(), attributes())
    place = places()[0]
    with pytest.raises(RunError, match=f"transaction {place.xmin} wrote what is there, not 7"):
        heap.row(RowVersion(place.block, place.item, 7))
    with pytest.raises(RunError, match="its page is not in the file"):
        heap.row(RowVersion(1, 1, 7))
    window = Window(RelationFile(str(GOLDEN / "heap.bin"), form()), form(), 1)
    window.fill(0, 1)
    live = {row.item for row in places().values()}
    deleted = next(n for n in range(1, 40) if window.pointer(n)[1] == 1 and n not in live)
    xmin = int(window.u4[int(window.pointer(deleted)[0]) // 4])
    with pytest.raises(RunError, match="it is deleted or updated"):
        heap.row(RowVersion(0, deleted, xmin))


def test_damage_to_a_chunk_is_noticed(tmp_path: Path) -> None:
    shutil.copy(GOLDEN / "heap.bin", tmp_path)
    data = bytearray((GOLDEN / "toast.bin").read_bytes())
    place = data.index(content(5, "a", 1996)[:200])
    data[place - 8 : place - 4] = struct.pack("<I", 77)  # its number in the value
    (tmp_path / "toast.bin").write_bytes(data)
    with pytest.raises(RunError, match="chunk 77 is there, but it has 3"):
        golden(tmp_path, form(), [5], ["a"]).row(0)


# -- made pages ------------------------------------------------------------------------------------

def toasted(
    path: Path, pages: Sequence[bytes], sizes: Dict[int, int], order: str = "little", **other: int
) -> Toast:
    path.write_bytes(b"".join(pages))
    by = form(order=order, **{"chunk_size": CHUNK, **other})
    reader = Toast(RelationFile(str(path), by), by, 9)
    reader.locate([External(size, value_id, 9) for value_id, size in sizes.items()])
    return reader


@pytest.mark.parametrize("order", ["little", "big"])
def test_chunks_lie_anywhere_between_dead_and_aborted_ones(tmp_path: Path, order: str) -> None:
    values = {id_: content(id_, "a", size) for id_, size in ((7, 1000), (3, 5555), (2**32 - 2, 311), (8, 99), (9, 5))}
    every = [piece for id_, data in values.items() for piece in pieces(id_, data)]
    rng = np.random.RandomState(1)
    tuples: List[Optional[bytes]] = []
    for at in rng.permutation(len(every)):
        tuples.append(chunk(*every[at], order=order))
        tuples.append(None if rng.rand() < 0.5 else chunk(*every[at], order=order, info=ABORTED))
    sizes = {id_: len(data) for id_, data in values.items()}
    pages = [page(tuples[at : at + 50], order) for at in range(0, len(tuples), 50)]
    reader = toasted(tmp_path / "t", pages, sizes, order)
    for id_, data in values.items():
        assert bytes(reader.value(External(len(data), id_, 9))) == data


#: What Greenplum does its own way.
GREENPLUM = {"page_version": 14, "pointer_bytes": 20, "network_order": True}


@pytest.mark.parametrize("order", ["little", "big"])
def test_chunks_of_greenplum_say_their_length_in_network_order(tmp_path: Path, order: str) -> None:
    data = content(7, "a", 455)
    kept = [chunk(*piece, order=order, network=True) for piece in (*pieces(7, data), *pieces(8, b"short"))]
    reader = toasted(tmp_path / "t", [page(kept, order, version=14)], {7: 455, 8: 5}, order, **GREENPLUM)
    assert bytes(reader.value(External(455, 7, 9))) == data
    assert bytes(reader.value(External(5, 8, 9))) == b"short"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({7: 355}, CHUNK),
        ({3: 5, 4: 40, 7: 355}, CHUNK),
        ({3: 5, 4: 40}, 40),  # none has a second one: any size from here on will do
        ({}, 1),
    ],
)
@pytest.mark.parametrize("apart", [False, True])
def test_the_size_of_chunks_is_seen_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, values: Dict[int, int], expected: int, apart: bool
) -> None:
    monkeypatch.setattr(toast, "WINDOW_BYTES", PAGE)
    every = [chunk(*piece) for id_, size in values.items() for piece in pieces(id_, content(id_, "a", size))]
    path = tmp_path / "t"
    path.write_bytes(b"".join(page([each]) for each in every) if apart else page(every))
    assert toast.measured_chunk(RelationFile(str(path), form()), form()) == expected


def opened_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ids: Sequence[int], sizes: Dict[int, int]
) -> List[int]:
    """Pages that opening reads when each page holds the whole value of one of `ids`; checks the values."""
    monkeypatch.setattr(toast, "WINDOW_BYTES", 4 * PAGE)
    read: List[int] = []
    plain = RelationFile.read
    monkeypatch.setattr(
        RelationFile, "read", lambda self, first, count, out: (read.append(count), plain(self, first, count, out))
    )
    pages = [page([chunk(*piece) for piece in pieces(id_, content(id_, "a", 355))]) for id_ in ids]
    reader = toasted(tmp_path / "t", pages, sizes)
    opened = list(read)
    for id_ in sizes:
        assert bytes(reader.value(External(355, id_, 9))) == content(id_, "a", 355)
    return opened


@pytest.mark.parametrize(
    ("ids", "wanted", "windows"),
    [
        (range(40), (0,), 2),  # the last window, too: nothing says what it ends with
        (range(40), (20,), 3),  # the sample of a window may also end the window before it
        (range(40), (17, 18), 2),
        (range(40), (39,), 1),
        ([*range(20, 40), *range(20)], (30,), 3),  # where numbers wrap around, too
        (np.random.RandomState(2).permutation(40).tolist(), tuple(range(40)), 10),
        ([*range(1, 18), 39, *range(18, 39)], (39, 1), 10),  # not in order: everywhere
    ],
)
def test_opening_reads_only_where_values_lie_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ids: Sequence[int], wanted: Sequence[int], windows: int
) -> None:
    opened = opened_pages(tmp_path, monkeypatch, ids, dict.fromkeys(wanted, 355))
    samples = -(-len(ids) // 4)
    assert opened[:samples] == [1] * samples
    assert len(opened) - samples == windows


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda every: every[1:], "1 of its 4 chunks are not there"),
        (lambda every: [*every, every[0]], "chunk 0 is there more than once"),
        (lambda every: [*every, (7, 4, b"x" * 100)], "chunk 4 is there, but it has 4"),
        (lambda every: [*every[:3], (7, 3, b"x" * 56)], "chunk 3 has 56 bytes"),
        (lambda every: [(7, 0, b"x" * 99), *every[1:]], "chunk 0 has 99 bytes"),
        (lambda every: [], "4 of its 4 chunks are not there"),
    ],
)  # fmt: skip
def test_a_value_that_is_not_whole_is_refused(tmp_path: Path, change: Any, message: str) -> None:
    kept = change(pieces(7, content(7, "a", 355)))
    reader = toasted(tmp_path / "t", [page([chunk(*piece) for piece in kept])], {7: 355})
    with pytest.raises(RunError, match=message):
        reader.value(External(355, 7, 9))


def test_a_value_of_another_relation_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="relation 8, not 9"):
        toasted(tmp_path / "t", [], {}).value(External(5, 7, 8))


@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        (page([], version=5), SetupError, "layout version 5, expected 8192 bytes in version 4"),
        (page([])[:12] + b"\x08\x00" + page([])[14:], RunError, "line pointers leave their page"),
        (page([b""])[:24] + b"\xfc\x9f\x20\x00" + bytes(PAGE - 28), RunError, "leaves its page"),
        (page([header("little", 2, COMMITTED) + bytes(40)]), RunError, "no chunk of a TOAST relation"),
        (page([header("little", 3, COMMITTED | 1) + bytes(40)]), RunError, "no chunk of a TOAST relation"),
        (page([header("little", 3, COMMITTED) + bytes(8) + b"\x02\1\0\0" + bytes(90)]), RunError, "compressed"),
        (page([header("little", 3, COMMITTED) + bytes(8) + b"\0\1\0\0" + bytes(20)]), RunError, "leaves its tuple"),
    ],
)  # fmt: skip
def test_a_damaged_page_is_refused(tmp_path: Path, bad: bytes, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        toasted(tmp_path / "t", [page([chunk(1, 0, b"x" * 50)]), bad], {1: 50, 2: 50})


def heap_row(path: Path, body: bytes, order: str = "little", **other: int) -> Dict[str, Any]:
    by = form(order=order, **other)
    path.write_bytes(page([header(order, 2, COMMITTED) + body], order, by.page_version))
    columns = [Attribute("id", 4, "i"), Attribute("v", -1, "i")]
    return Heap(RelationFile(str(path), by), by, columns).row(RowVersion(0, 1, 5))


POINTER = struct.pack("<BBIIII", 1, 18, 1004, 1000, 7, 9)


@pytest.mark.parametrize(
    ("order", "stored", "value"),
    [
        ("little", b"\x09abc", b"abc"),
        ("big", b"\x84abc", b"abc"),
        ("little", struct.pack("<I", 7 << 2) + b"abc", b"abc"),
        ("big", struct.pack(">I", 7) + b"abc", b"abc"),
        ("little", b"\x03", b""),
        ("little", POINTER, External(1000, 7, 9)),
        ("big", struct.pack(">BBIIII", 0x80, 18, 1004, 1000, 7, 9), External(1000, 7, 9)),
    ],
)
def test_values_inline_and_pointers(tmp_path: Path, order: str, stored: bytes, value: Any) -> None:
    assert heap_row(tmp_path / "h", bytes(4) + stored, order)["v"] == value


@pytest.mark.parametrize(
    ("stored", "value"),
    [
        (b"\x84abc", b"abc"),
        (struct.pack(">I", 7) + b"abc", b"abc"),
        (struct.pack(">I", 304) + b"a" * 300, b"a" * 300),
        (struct.pack("<BBxxIIII", 0x80, 20, 1004, 1000, 7, 9), External(1000, 7, 9)),
    ],
)
def test_values_and_pointers_of_greenplum(tmp_path: Path, stored: bytes, value: Any) -> None:
    assert heap_row(tmp_path / "h", bytes(4) + stored, **GREENPLUM)["v"] == value


@pytest.mark.parametrize(
    "stored",
    [
        struct.pack(">I", 12 | 1 << 30) + struct.pack("<I", 100) + b"abcd",
        struct.pack("<BBxxIIII", 0x80, 20, 2004, 1000, 7, 9),
    ],
)
def test_compressed_values_of_greenplum_are_refused_by_name(tmp_path: Path, stored: bytes) -> None:
    with pytest.raises(UsageError, match="compressed by pglz"):
        heap_row(tmp_path / "h", bytes(4) + stored, **GREENPLUM)


def test_a_row_whose_delete_failed_is_read_and_one_that_another_deletes_is_not(tmp_path: Path) -> None:
    deleted = struct.pack("<IIIHHHHHBx", 5, 77, 0, 0, 0, 0, 2, 0x0100, 24) + bytes(4) + b"\x09abc"
    (tmp_path / "h").write_bytes(page([deleted, deleted[:20] + struct.pack("<H", 0x1100) + deleted[22:]]))
    columns = [Attribute("id", 4, "i"), Attribute("v", -1, "i")]
    heap = Heap(RelationFile(str(tmp_path / "h"), form()), form(), columns)
    assert heap.row(RowVersion(0, 1, 5, failed=77))["v"] == b"abc"
    for item, failed in ((1, 0), (1, 78), (2, 77)):  # the last bears the number of a group of transactions
        with pytest.raises(RunError, match="it is deleted or updated"):
            heap.row(RowVersion(0, item, 5, failed))


@pytest.mark.parametrize(
    ("stored", "method"),
    [
        (struct.pack("<II", 12 << 2 | 2, 100) + b"abcd", "pglz"),
        (struct.pack("<II", 12 << 2 | 2, 100 | 1 << 30) + b"abcd", "lz4"),
        (struct.pack("<BBIIII", 1, 18, 2004, 1000, 7, 9), "pglz"),
        (struct.pack("<BBIIII", 1, 18, 2004, 1000 | 1 << 30, 7, 9), "lz4"),
        (struct.pack("<BBIIII", 1, 18, 2004, 1000 | 3 << 30, 7, 9), "method 3"),
    ],
)
def test_compressed_values_are_refused_by_name(tmp_path: Path, stored: bytes, method: str) -> None:
    with pytest.raises(UsageError, match=f"column 'v' .* compressed by {method}, expected storage external"):
        heap_row(tmp_path / "h", bytes(4) + stored)


@pytest.mark.parametrize(
    "stored", [b"\xffabc", POINTER[:9], struct.pack("<I", 400 << 2), struct.pack("<I", 2 << 2), b""]
)
def test_a_value_that_leaves_its_tuple_is_refused(tmp_path: Path, stored: bytes) -> None:
    with pytest.raises(RunError, match="column 'v' leaves its tuple"):
        heap_row(tmp_path / "h", bytes(4) + stored)
