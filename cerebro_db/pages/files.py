"""The files of a relation: runs of pages, read where they lie.

Pages are read, not mapped: the server truncates the files of a dropped table at once, and a mapped page
that is gone ends the process by SIGBUS, where a read that comes back short is an error one can report.
"""

from __future__ import annotations

import os
import pwd
from contextlib import contextmanager
from typing import Iterator

import numpy as np

from cerebro_db.errors import RunError, SetupError
from cerebro_db.pages.format import Format

#: The start of a cluster's control file is its system identifier.
_CONTROL, _IDENTIFIER_BYTES = "global/pg_control", 8
#: What a standby or mirror has, before version 12 and since; it has the identifier of what it copies.
_FOLLOWS = ("recovery.conf", "standby.signal")


class RelationFile:
    """The main fork of one relation, in one or more files. Opens no file for longer than a read."""

    def __init__(self, path: str, form: Format) -> None:
        self.path = path
        self._form = form
        #: Pages that it has now.
        self.blocks = self._count()

    def read(self, first: int, count: int, out: np.ndarray) -> None:
        """Fill the uint8 array `out` with pages first .. first + count; raises RunError when they are gone."""
        view, size, per_file = out.data, self._form.block_size, self._form.segment_blocks
        while count:
            number, place = divmod(first, per_file)
            here = min(count, per_file - place)
            with _opened(self._file(number)) as handle:
                _read_fully(handle, view[: here * size], place * size, self._file(number))
            view, first, count = view[here * size :], first + here, count - here

    def _file(self, number: int) -> str:
        return f"{self.path}.{number}" if number else self.path

    def _count(self) -> int:
        total = 0
        for number in range(1 << 15):  # block numbers end at 2^32
            if number and not os.path.exists(self._file(number)):
                break
            with _opened(self._file(number)) as handle:
                blocks = os.fstat(handle).st_size // self._form.block_size
            total += blocks
            if blocks < self._form.segment_blocks:
                break
        return total


def check_cluster(data_directory: str, system_identifier: int, form: Format, server: str = "the server") -> None:
    """Raise SetupError unless this host's `data_directory` is readable and that of the server, so named in errors."""
    path = os.path.join(data_directory, _CONTROL)
    try:
        with _opened(path) as handle:
            found = form.number(memoryview(os.read(handle, _IDENTIFIER_BYTES)))
    except RunError:
        found = -1
    if found != system_identifier:
        raise SetupError(
            f"the data directory {data_directory!r} of {server} is not on this machine (no {_CONTROL} with its system "
            f"identifier {system_identifier}): strategy 'direct' runs on the host of the files; use another strategy"
        )
    for name in _FOLLOWS:
        if os.path.exists(os.path.join(data_directory, name)):
            raise SetupError(
                f"the data directory {data_directory!r} of {server} is on this machine that of its mirror or standby "
                f"(it has {name}), which is late: strategy 'direct' runs on the host of the files; use another strategy"
            )


@contextmanager
def _opened(path: str) -> Iterator[int]:
    try:
        handle = os.open(path, os.O_RDONLY)
    except PermissionError as error:
        user = pwd.getpwuid(os.geteuid()).pw_name
        raise SetupError(
            f"the operating system does not let user {user!r} read {path!r}: run the workers as the server's user, or "
            f"let its group read (initdb --allow-group-access, and {user!r} in that group), or use another strategy"
        ) from error
    except FileNotFoundError as error:
        raise RunError(f"file {path!r} is gone: the table was dropped or rewritten meanwhile; run it again") from error
    try:
        yield handle
    finally:
        os.close(handle)


def _read_fully(handle: int, out: memoryview, offset: int, path: str) -> None:
    while len(out):
        count = os.preadv(handle, [out], offset)
        if count == 0:
            raise RunError(f"file {path!r} ends at byte {offset}: the table was truncated or dropped meanwhile")
        out, offset = out[count:], offset + count
