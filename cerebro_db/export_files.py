"""An export: packed rows in files that are mapped, not parsed, and that no reader has to copy.

    index.json     of what, rows of each buffer, and per file: name of the column, NumPy dtype, shape
    0.bin, 1.bin   a file per column: all rows of all buffers, in order, as one array

So anyone reads a column by `numpy.memmap(file, dtype, "r", shape=shape)`.
"""

from __future__ import annotations

import errno
import fcntl
import json
import mmap
import os
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Iterable, Iterator, Optional, Sequence, Tuple

from cerebro_db.errors import RunError

if TYPE_CHECKING:  # `cerebro-db clean` needs no torch
    from cerebro_db.batches import Buffer

#: Raised when the meaning of the files changes.
FORMAT = 1
#: Bytes that the system is asked to have in memory ahead of the reader.
AHEAD_BYTES = 32 << 20

INDEX = "index.json"


@dataclass(frozen=True)
class Column:
    """One file."""

    name: str
    #: NumPy dtype, byte order included.
    dtype: str
    #: Shape of one row.
    shape: Tuple[int, ...]

    @property
    def row_bytes(self) -> int:
        return prod(self.shape) * int(self.dtype[2:])


@dataclass(frozen=True)
class Index:
    """What an export holds, and of what."""

    database: str
    table: str
    #: The segment, None for all.
    dist_key: Optional[int]
    #: What tells whether the table is still what was written.
    fingerprint: str
    #: Rows of each buffer.
    rows: Tuple[int, ...]
    columns: Tuple[Column, ...]

    @property
    def bytes(self) -> int:
        return sum(self.rows) * sum(column.row_bytes for column in self.columns)

    def to_json(self) -> str:
        files = [
            {"file": f"{number}.bin", **asdict(column), "shape": [sum(self.rows), *column.shape]}
            for number, column in enumerate(self.columns)
        ]
        return json.dumps({"format": FORMAT, **asdict(self), "columns": files}, indent=1)

    @classmethod
    def read(cls, folder: Path) -> Index:
        """Raises OSError, ValueError or KeyError when there is none."""
        raw = json.loads((folder / INDEX).read_text("utf-8"))
        if raw.pop("format") != FORMAT:
            raise ValueError("another format")
        columns = tuple(Column(item["name"], item["dtype"], tuple(item["shape"][1:])) for item in raw["columns"])
        return cls(**{**raw, "rows": tuple(raw["rows"]), "columns": columns})


class ExportSource:
    """Buffers of an export, as views of its files; holds the lock that keeps them from being removed."""

    def __init__(self, folder: Path) -> None:
        self._lock: Optional[int] = os.open(folder / INDEX, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_SH)
        self.index = index = Index.read(folder)
        self.rows: Sequence[int] = index.rows
        self._starts = [sum(index.rows[:number]) for number in range(len(index.rows) + 1)]
        self._files = [_Mapped(folder / f"{n}.bin", c, sum(index.rows)) for n, c in enumerate(index.columns)]
        self._row_bytes = max(1, sum(column.row_bytes for column in index.columns))

    def read(self, numbers: Optional[Sequence[int]]) -> Iterator[Buffer]:
        wanted = list(range(len(self.rows)) if numbers is None else numbers)
        told = bytes_ahead = 0
        for number in wanted:
            while told < len(wanted) and bytes_ahead <= AHEAD_BYTES:
                for file in self._files:
                    file.will_need(*self._range(wanted[told]))
                bytes_ahead += self.rows[wanted[told]] * self._row_bytes
                told += 1
            bytes_ahead -= self.rows[number] * self._row_bytes
            yield {file.name: file.part(*self._range(number)) for file in self._files}

    def close(self) -> None:
        """Let the files be removed; views that are left stay good."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _range(self, number: int) -> Tuple[int, int]:
        return self._starts[number], self._starts[number + 1]


class _Mapped:
    """A column's file in memory."""

    def __init__(self, path: Path, column: Column, rows: int) -> None:
        self.name = column.name
        self._row_bytes = column.row_bytes
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size != rows * column.row_bytes:
                raise RunError(
                    f"{str(path)!r} has {size} bytes, expected {rows * column.row_bytes}: something else changed it; "
                    "remove it by 'cerebro-db clean' and run again"
                )
            # An empty file cannot be mapped.
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else None
        self._view = memoryview(self._map if self._map is not None else b"")

    def part(self, start: int, stop: int) -> memoryview:
        return self._view[start * self._row_bytes : stop * self._row_bytes]

    def will_need(self, start: int, stop: int) -> None:
        if self._map is not None and stop > start:
            first = start * self._row_bytes // mmap.PAGESIZE * mmap.PAGESIZE
            self._map.madvise(mmap.MADV_WILLNEED, first, stop * self._row_bytes - first)


def write(folder: Path, index: Index, buffers: Iterable[Buffer]) -> None:
    """Write an export into a new folder and to the disk. Raises OSError, RunError for buffers of another size."""
    folder.mkdir(mode=0o700)
    _put_file(folder / INDEX, index.to_json().encode("utf-8"))
    files = [(_create(folder / f"{number}.bin"), column) for number, column in enumerate(index.columns)]
    try:
        for handle, column in files:
            _reserve(handle, sum(index.rows) * column.row_bytes)
        for buffer, rows in zip(buffers, index.rows):
            for handle, column in files:
                _put(handle, _checked(memoryview(buffer[column.name]), column, rows))
        for handle, _ in files:
            os.fsync(handle)
    finally:
        for handle, _ in files:
            os.close(handle)
    sync(folder)


def _checked(data: memoryview, column: Column, rows: int) -> memoryview:
    if len(data) != rows * column.row_bytes:
        raise RunError(
            f"a buffer of column {column.name!r} has {len(data)} bytes, expected {rows} rows of {column.row_bytes}: "
            "the packed table is not as it was packed; pack it again"
        )
    return data


def _reserve(handle: int, size: int) -> None:
    """Have the disk say now that it is full, where it can."""
    try:
        if size:
            os.posix_fallocate(handle, 0, size)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
            raise


def _put_file(path: Path, data: bytes) -> None:
    handle = _create(path)
    try:
        _put(handle, memoryview(data))
        os.fsync(handle)
    finally:
        os.close(handle)


def _create(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)


def _put(handle: int, data: memoryview) -> None:
    while len(data):
        data = data[os.write(handle, data) :]


def sync(folder: Path) -> None:
    """Have the disk hold what the folder lists."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
