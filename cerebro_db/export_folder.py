"""The folder of exports: who writes, reads and removes them, at the same time as others.

    <exports>/<key>.lock                 held while an export of <key> is looked for, written or removed
    <exports>/<key>/<version>/           an export, never changed; its index is locked, shared, by every reader
    <exports>/<key>/partial/             one that is being written, or was when its writer died

Locks are those of flock, which end with their process however it ends.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Iterable, Iterator, List, Optional

from cerebro_db import export_files
from cerebro_db.environment import exports
from cerebro_db.errors import SetupError
from cerebro_db.export_files import INDEX, ExportSource, Index
from cerebro_db.sqltext import TableName

if TYPE_CHECKING:  # `cerebro-db clean` needs no torch
    from cerebro_db.batches import Buffer

_PARTIAL, _LOCK = "partial", ".lock"
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Place:
    """The exports of one part of one table, while their lock is held."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def version(self, name: str) -> Optional[ExportSource]:
        """An export that is whole; None when there is none."""
        folder = self._folder / name
        if _index(folder) is not None:
            return ExportSource(folder)
        shutil.rmtree(folder, ignore_errors=True)  # nothing of ours, or damaged
        return None

    def write(self, name: str, index: Index, buffers: Iterable[Buffer]) -> ExportSource:
        """Write a version, whole or not at all. Raises SetupError when the disk is full or not to be written."""
        partial = self._folder / _PARTIAL
        try:
            self._begin(partial, index)
            export_files.write(partial, index, buffers)
            partial.rename(self._folder / name)
            export_files.sync(self._folder)
        except BaseException as error:
            shutil.rmtree(partial, ignore_errors=True)
            if isinstance(error, OSError):
                raise _refusal(error, self._folder, index.bytes) from error
            raise
        return ExportSource(self._folder / name)

    def remove_others(self, name: str) -> None:
        """Remove versions of what the table was before, unless they are being read."""
        for folder in self.versions():
            if folder.name != name:
                _remove_unused(folder)

    def remove_if_empty(self) -> bool:
        """Whether nothing is left."""
        if self._folder.is_dir() and not any(self._folder.iterdir()):
            self._folder.rmdir()
        return not self._folder.is_dir()

    def versions(self) -> List[Path]:
        return sorted(self._folder.iterdir()) if self._folder.is_dir() else []

    def _begin(self, partial: Path, index: Index) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        shutil.rmtree(partial, ignore_errors=True)
        free = _free(self._folder)
        if free < index.bytes:
            raise _no_room(self._folder, index.bytes, free)


@dataclass(frozen=True)
class Removed:
    """An export that was removed, or is left because it is in use."""

    #: What its index says; None when a crash left it without one.
    index: Optional[Index]
    #: What it takes on the disk.
    bytes: int
    removed: bool


def root() -> Path:
    """The folder of exports, made when it is missing. Raises SetupError when it is not this user's own."""
    folder = exports()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError as error:
        raise SetupError(
            f"the folder of exports {str(folder)!r} cannot be made: {error.strerror}; name another by CEREBRO_EXPORTS, "
            "or use another strategy than 'export'"
        ) from error
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise SetupError(
            f"the folder of exports {str(folder)!r} must belong to this user and be writable by no other: chown and "
            "chmod 700 it, or name another by CEREBRO_EXPORTS"
        )
    return folder


@contextmanager
def place(key: str) -> Iterator[Place]:
    """The exports under a key; waits while another process writes or removes them."""
    folder = root()
    try:
        handle = _lock(folder / (key + _LOCK), fcntl.LOCK_EX)
    except OSError as error:
        raise _refusal(error, folder, 1) from error
    assert handle is not None
    try:
        yield Place(folder / key)
    finally:
        os.close(handle)


def remove(table: Optional[TableName] = None) -> List[Removed]:
    """Remove the exports of a table (of any schema when it names none), or all; not those in use."""
    folder = root()
    return [one for lock in sorted(folder.glob("*" + _LOCK)) for one in _remove_key(lock, table)]


def _remove_key(lock: Path, table: Optional[TableName]) -> List[Removed]:
    place = Place(lock.with_suffix(""))
    handle = _lock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    try:
        chosen = [folder for folder in place.versions() if _is_of(folder, table)]
        if handle is None:  # one is being written
            return [Removed(_index(folder), _disk_bytes(folder), removed=False) for folder in chosen]
        found = [_remove_unused(folder) for folder in chosen]
        if place.remove_if_empty():
            lock.unlink()
        return found
    finally:
        if handle is not None:
            os.close(handle)


def _remove_unused(folder: Path) -> Removed:
    """Remove an export unless someone reads it; the lock of its key is held."""
    index, size = _index(folder), _disk_bytes(folder)
    in_use = _is_read(folder / INDEX)
    if not in_use:
        shutil.rmtree(folder)
    return Removed(index, size, removed=not in_use)


def _is_read(path: Path) -> bool:
    """Whether a reader holds its lock; no new one comes while the lock of the key is held."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _lock(path: Path, mode: int) -> Optional[int]:
    """Lock a file that others may remove; None when it is locked already and `mode` is not to wait."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(handle, mode)
        except BlockingIOError:
            os.close(handle)
            return None
        if _is_at(handle, path):
            return handle
        os.close(handle)


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _refusal(error: OSError, folder: Path, needed: int) -> SetupError:
    if error.errno in _NO_ROOM:
        return _no_room(folder, needed, _free(folder))
    return SetupError(
        f"the export to {str(folder)!r} failed: {error.strerror}; see to that folder, name another by "
        "CEREBRO_EXPORTS, or use another strategy"
    )


def _no_room(folder: Path, needed: int, free: int) -> SetupError:
    return SetupError(
        f"the export to {str(folder)!r} needs {needed:,} bytes, but the disk or a quota leaves {free:,} free: make "
        "room, remove old exports by 'cerebro-db clean', name another folder by CEREBRO_EXPORTS, or use another "
        "strategy; nothing was left there"
    )


def _free(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def _index(folder: Path) -> Optional[Index]:
    try:
        return Index.read(folder)
    except (OSError, ValueError, KeyError, TypeError):
        return None  # written by another version, or cut short by a crash


def _is_of(folder: Path, table: Optional[TableName]) -> bool:
    index = None if table is None else _index(folder)
    if table is None or index is None:
        return table is None
    found = TableName.parse(index.table)
    return found.name == table.name and table.schema in (None, found.schema)


def _disk_bytes(folder: Path) -> int:
    return sum(file.lstat().st_blocks * 512 for file in folder.rglob("*"))
