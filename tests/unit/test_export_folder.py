"""Exports are whole or not there, written once, and not removed under their readers."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import resource
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Dict, Iterator, List, Optional, Sequence

import numpy as np
import pytest
from typer.testing import CliRunner

from cerebro_db import export_folder
from cerebro_db.cli import app
from cerebro_db.errors import RunError, SetupError
from cerebro_db.export_files import Column, ExportSource, Index
from cerebro_db.export_folder import place, remove
from cerebro_db.sqltext import TableName
from tests.support import wait_until

COLUMNS = (Column("img", "|u1", (4, 2)), Column("y", ">f4", ()))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CEREBRO_EXPORTS", str(tmp_path / "exports"))
    return tmp_path / "exports"


def index(rows: Sequence[int], table: str = "public.t", dist_key: Optional[int] = 0) -> Index:
    return Index("db", table, dist_key, "fingerprint", tuple(rows), COLUMNS)


def buffers(rows: Sequence[int]) -> List[Dict[str, bytes]]:
    rng = np.random.RandomState(0)
    return [{"img": rng.bytes(8 * count), "y": rng.rand(count).astype(">f4").tobytes()} for count in rows]


def export(key: str = "k", version: str = "v", rows: Sequence[int] = (3, 2), table: str = "public.t") -> ExportSource:
    with place(key) as here:
        return here.write(version, index(rows, table), buffers(rows))


def everything(folder: Path) -> List[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_buffers_come_back_as_views_in_the_order_asked_for() -> None:
    source = export(rows=(3, 0, 2))
    wanted = buffers((3, 0, 2))
    assert list(source.rows) == [3, 0, 2]
    found = list(source.read([2, 0, 1, 2]))
    assert [{k: bytes(v) for k, v in buffer.items()} for buffer in found] == [wanted[n] for n in (2, 0, 1, 2)]
    assert [bytes(buffer["img"]) for buffer in source.read(None)] == [buffer["img"] for buffer in wanted]
    first, again = np.frombuffer(next(source.read([0]))["img"], np.uint8), np.frombuffer(found[1]["img"], np.uint8)
    assert first.__array_interface__["data"] == again.__array_interface__["data"]  # not a copy, and read-only
    assert first.__array_interface__["data"][1]


def test_anyone_maps_the_files_by_what_the_index_says(folder: Path) -> None:
    export(rows=(3, 2)).close()
    stored = json.loads((folder / "k" / "v" / "index.json").read_text())
    for item in stored["columns"]:
        mapped = np.memmap(folder / "k" / "v" / item["file"], item["dtype"], "r", shape=tuple(item["shape"]))
        assert mapped.tobytes() == b"".join(buffer[item["name"]] for buffer in buffers((3, 2)))
    assert stored["table"] == "public.t"
    assert stored["rows"] == [3, 2]


@pytest.mark.parametrize("rows", [(), (1,)])
def test_no_rows_and_one(rows: Sequence[int]) -> None:
    source = export(rows=rows)
    assert [bytes(buffer["img"]) for buffer in source.read(None)] == [buffer["img"] for buffer in buffers(rows)]


def test_only_this_user_may_look(folder: Path) -> None:
    export().close()
    modes = {path.stat().st_mode & 0o777 for path in folder.rglob("*") if path.is_file()}
    assert modes == {0o600}
    assert {path.stat().st_mode & 0o777 for path in (folder, folder / "k", folder / "k" / "v")} == {0o700}


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_folder_that_others_may_write_is_refused(folder: Path, mode: int) -> None:
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(SetupError, match="writable by no other: chown and chmod 700 it, or .* CEREBRO_EXPORTS"):
        export()


def test_a_folder_that_cannot_be_made_is_named(folder: Path) -> None:
    folder.parent.joinpath("exports").write_text("a file")
    with pytest.raises(SetupError, match=r"exports' cannot be made: File exists; name another by CEREBRO_EXPORTS"):
        export()


def test_buffers_of_another_size_leave_nothing(folder: Path) -> None:
    with place("k") as here, pytest.raises(RunError, match="column 'img' has 24 bytes, expected 2 rows of 8"):
        here.write("v", index((2,)), buffers((3,)))
    assert everything(folder) == ["k", "k.lock"]


def test_an_error_of_the_source_leaves_nothing(folder: Path) -> None:
    def broken() -> Iterator[Dict[str, bytes]]:
        yield buffers((3,))[0]
        raise KeyboardInterrupt

    with place("k") as here, pytest.raises(KeyboardInterrupt):
        here.write("v", index((3, 3)), broken())
    assert everything(folder) == ["k", "k.lock"]


def test_a_file_that_was_cut_is_refused(folder: Path) -> None:
    export().close()
    os.truncate(folder / "k" / "v" / "0.bin", 7)
    with place("k") as here, pytest.raises(RunError, match="has 7 bytes, expected 40.*cerebro-db clean"):
        here.version("v")


def test_a_damaged_index_counts_as_no_export(folder: Path) -> None:
    export().close()
    (folder / "k" / "v" / "index.json").write_text("{")
    with place("k") as here:
        assert here.version("v") is None
        here.write("v", index((1,)), buffers((1,))).close()


# -- a full disk -----------------------------------------------------------------------------------


@pytest.fixture
def tiny(folder: Path) -> Iterator[Path]:
    """A file system of 1 MB."""
    folder.mkdir(mode=0o700)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "none", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip("cannot mount here")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


REMEDY = "make room, remove old exports by 'cerebro-db clean', name another folder by CEREBRO_EXPORTS"


def test_a_disk_that_is_too_small_is_told_before_writing(tiny: Path) -> None:
    with pytest.raises(SetupError, match=f"k' needs 2,400,000 bytes, but .* leaves 1,048,576 free: {REMEDY}"):
        export(rows=(100_000, 100_000))
    assert everything(tiny) == ["k", "k.lock"]


def test_a_disk_that_fills_up_meanwhile_is_told(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "this file system cannot reserve")

    monkeypatch.setattr(os, "posix_fallocate", full)
    rows = (20_000, 20_000)

    def filling() -> Iterator[Dict[str, bytes]]:
        for buffer in buffers(rows):
            yield buffer
            (tiny / "other").write_bytes(bytes(700_000))

    with (
        pytest.raises(SetupError, match=f"needs 480,000 bytes, but .* leaves [1-3].*,... free: {REMEDY}"),
        place("k") as k,
    ):
        k.write("v", index(rows), filling())
    assert everything(tiny) == ["k", "k.lock", "other"]
    (tiny / "other").unlink()
    assert len(list(export(rows=rows).read(None))) == 2


def test_a_disk_without_room_for_the_reserve_is_told(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_folder, "_free", lambda folder: 10_000_000)  # as it was a moment ago
    with pytest.raises(SetupError, match=f"needs 2,400,000 bytes, .*{REMEDY}"):
        export(rows=(100_000, 100_000))
    assert everything(tiny) == ["k", "k.lock"]


def test_a_limit_of_the_size_of_files_is_told(folder: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(SetupError, match=f"needs 2,400,000 bytes, .*{REMEDY}"):
            export(rows=(100_000, 100_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert everything(folder) == ["k", "k.lock"]


# -- several at once -------------------------------------------------------------------------------


def test_one_writes_and_the_others_wait_for_it() -> None:
    begun, go_on = threading.Event(), threading.Event()
    written: List[str] = []
    found: List[bytes] = []

    def slow() -> Iterator[Dict[str, bytes]]:
        begun.set()
        assert go_on.wait(30)
        written.append("once")
        yield from buffers((3, 2))

    def work() -> None:
        with place("k") as here:
            source = here.version("v") or here.write("v", index((3, 2)), slow())
        found.append(b"".join(bytes(buffer["img"]) for buffer in source.read(None)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert begun.wait(30)
    go_on.set()
    for thread in threads:
        thread.join(30)
    assert written == ["once"]
    assert found == [b"".join(buffer["img"] for buffer in buffers((3, 2)))] * 4


WRITER = """
import os, sys
from tests.unit.test_export_folder import *
os.environ["CEREBRO_EXPORTS"] = sys.argv[1]
def stuck():
    yield buffers((3,))[0]
    print("half", flush=True)
    sys.stdin.read()
with place("k") as here:
    here.write("v", index((3, 3)), stuck())
"""


@pytest.fixture
def writer(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process in the middle of writing."""
    command = [sys.executable, "-c", WRITER, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "half\n"
        yield process
        process.kill()


def test_what_a_crash_left_goes_with_the_next_export(folder: Path, writer: subprocess.Popen[str]) -> None:
    writer.kill()
    writer.wait()
    assert "k/partial/0.bin" in everything(folder)
    export().close()
    assert everything(folder) == ["k", "k.lock", "k/v", "k/v/0.bin", "k/v/1.bin", "k/v/index.json"]


def test_clean_leaves_what_is_being_written_and_removes_what_a_crash_left(
    folder: Path, writer: subprocess.Popen[str]
) -> None:
    assert [item.removed for item in remove()] == [False]
    writer.kill()
    writer.wait()
    (item,) = remove()
    assert item.removed
    assert everything(folder) == []


# -- clean -----------------------------------------------------------------------------------------


def test_clean_removes_all_but_what_is_read(folder: Path) -> None:
    read = export("a")
    export("b", rows=(1000,)).close()
    size = sum(path.stat().st_blocks * 512 for path in (folder / "b" / "v").iterdir())
    first, second = remove()
    assert (first.removed, second.removed, second.bytes) == (False, True, size)
    assert everything(folder) == ["a", "a.lock", "a/v", "a/v/0.bin", "a/v/1.bin", "a/v/index.json"]
    assert len(list(read.read(None))) == 2
    read.close()
    assert [item.removed for item in remove()] == [True]
    assert everything(folder) == []


def test_clean_of_one_table_leaves_the_others(folder: Path) -> None:
    export("a", table="public.t").close()
    export("b", table='public."T"').close()
    export("c", table="other.t").close()
    (item,) = remove(TableName.parse("other.t"))
    assert item.index is not None
    assert item.index.table == "other.t"
    (item,) = remove(TableName.parse('"T"'))
    assert item.index is not None
    assert item.index.table == 'public."T"'
    assert [path.name for path in sorted(folder.iterdir())] == ["a", "a.lock"]
    assert len(remove(TableName.parse("t"))) == 1


def test_versions_of_before_go_unless_they_are_read(folder: Path) -> None:
    old, older = export(version="old"), export(version="older")
    older.close()
    with place("k") as here:
        here.remove_others("new")
    assert [path.name for path in (folder / "k").iterdir()] == ["old"]
    old.close()


def test_a_lock_file_that_was_removed_is_not_taken_for_the_lock(folder: Path) -> None:
    """Who waits for a lock that `clean` removes with its file must take the new one."""
    export().close()
    got = threading.Event()
    lock = folder / "k.lock"
    held = os.open(lock, os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)

    def wait() -> None:
        with place("k"):
            got.set()

    thread = threading.Thread(target=wait)
    thread.start()
    wait_until(lambda: Path("/proc/locks").read_text().count("->") > 0, 10, "it waits for the lock")
    lock.unlink()
    shutil.rmtree(folder / "k")
    new = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(new, fcntl.LOCK_EX)
    os.close(held)
    assert not got.wait(0.2)
    os.close(new)
    thread.join(10)
    assert got.is_set()


def test_the_command_says_what_it_did(folder: Path) -> None:
    read = export("a", table="public.a")
    export("b", table="public.b").close()
    size = sum(path.stat().st_blocks * 512 for path in (folder / "b" / "v").iterdir())
    result = CliRunner().invoke(app, ["clean"])
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        f"left, a run is using it: public.a of database db, segment 0, {size:,} bytes",
        f"removed public.b of database db, segment 0, {size:,} bytes",
        f"{size:,} bytes came free in {folder}",
    ]
    read.close()
    result = CliRunner().invoke(app, ["clean", "public.a", "--json"])
    assert result.stdout == (
        f'{{"freed_bytes": {size}, "exports": [{{"database": "db", "table": "public.a", "segment": 0, '
        f'"bytes": {size}, "removed": true}}]}}\n'
    )
