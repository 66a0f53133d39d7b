"""Buffers of a packed table by binary COPY, read ahead of the training, as `batches.SegmentRows` reads them.

On Greenplum with segment hosts of its own, a segment's buffers come from its host, see `endpoints`.

A thread with a session of its own fills a queue that is bounded in bytes, so that reading overlaps training
in flat memory. A segment is read in the same order by every config of an epoch: so when a read is over, the
reader begins the same one again, for the next hop. That costs a queue of memory at most, one unused queue
of reading when the epoch changes, and an open snapshot, which holds vacuum back until the next
hop, or for IDLE_SECONDS.
"""

from __future__ import annotations

import itertools
import struct
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Callable, Deque, Dict, Iterator, List, Optional, Sequence, Tuple, Type

from cerebro_db.batches import Buffer
from cerebro_db.client import PsycopgDatabase
from cerebro_db.columns import shape_column
from cerebro_db.copy_format import CopyParser, Fields
from cerebro_db.database import Database, Row
from cerebro_db.endpoints import Retrieval, are_useful
from cerebro_db.errors import RunError, UsageError
from cerebro_db.sqltext import Fragment, TableName, ident, query, row_columns

#: How long a reader that is ahead waits for the next hop before it lets go of its snapshot [s].
IDLE_SECONDS = 30.0
#: How long a reader that must stop has to notice, before its statement is cancelled [s].
STOP_SECONDS = 0.02

_NUMBER = struct.Struct("!q")
_CHANGED = "run it again when nothing writes to the table"
Connect = Callable[[], PsycopgDatabase]


class CopySource:
    """The buffers of one segment, or of all when `dist_key` is None; the first of `columns` counts rows.

    `connect` opens the reader's session, `ahead_bytes` bounds what is read and not yet taken. Reading raises
    what the server raises, and RunError when buffers are not there any more.
    """

    #: Rows are read again in every epoch and never kept, so that memory does not depend on their number.
    keeps_rows = False

    def __init__(
        self,
        database: Database,
        connect: Connect,
        columns: Sequence[str],
        table: TableName,
        dist_key: Optional[int],
        ahead_bytes: int,
    ) -> None:
        self._connect = connect
        self._columns = tuple(columns)
        self._dist_key = dist_key
        self._ahead_bytes = ahead_bytes
        self._parts: Dict[str, Fragment] = {
            "packed": table.sql(),
            "columns": row_columns("p", columns),
        }
        shape = ident(shape_column(columns[0]))
        counted = database.rows(query("worker", "buffers", shape=shape, **self._parts), dist_key=dist_key)
        self._ids: List[int] = [row["buffer_id"] for row in counted]
        self.rows: Sequence[int] = [row["rows"] for row in counted]
        self._reader: Optional[Reader] = None
        #: Whether the segment may be asked itself.
        self._by_endpoint = dist_key is not None and are_useful(database)

    def read(self, numbers: Optional[Sequence[int]]) -> Iterator[Buffer]:
        """No number twice, and one read at a time: a new one ends that before. Closing the iterator ends its reader."""
        ids = self._ids if numbers is None else [self._ids[number] for number in numbers]
        if not ids:
            return
        reader = self._reader_of(ids, numbers is None)
        left = len(ids)
        try:
            for wanted in ids:
                buffer = self._buffer(reader.take(), wanted)
                left -= 1
                if left == 0:  # here, since nobody asks for what comes after the last
                    self._rest(reader)
                yield buffer
        finally:
            if left:
                reader.close()

    def close(self) -> None:
        """End the reader and its session; the next read begins anew."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _reader_of(self, ids: List[int], all_of_them: bool) -> Reader:
        """The reader that went on with the same buffers, else a new one."""
        if self._reader is None or not self._reader.go_on(ids):
            self.close()
            values: Dict[str, Any] = {"dist_key": self._dist_key}
            if not all_of_them:
                values.update(first=min(ids), places=_places(ids))
            sql = query("copy", "all" if all_of_them else "some", **self._parts)
            self._reader = Reader(self._connect, self._way(sql, values, ids), self._ahead_bytes)
        return self._reader

    def _way(self, sql: Fragment, values: Dict[str, Any], ids: Sequence[int]) -> Copy:
        if self._by_endpoint:
            return Retrieve(sql, values, ids, self._go_by_copy)
        return Copy(sql, values, ids)

    def _go_by_copy(self) -> None:
        self._by_endpoint = False

    def _rest(self, reader: Reader) -> None:
        if self._dist_key is None:  # validation: read once per epoch, not hop by hop
            reader.close()
        else:
            reader.again()

    def _buffer(self, fields: Fields, wanted: int) -> Buffer:
        number, *values = fields
        found = _NUMBER.unpack(number or b"\0" * _NUMBER.size)[0]
        if found != wanted:
            raise RunError(f"buffer {found} of the packed table came where {wanted} was expected; {_CHANGED}")
        buffer: Dict[str, memoryview] = {}
        for name, value in zip(self._columns, values):
            if value is None:
                raise UsageError(f"column {name!r} of the packed table is NULL, expected bytes; pack the table again")
            buffer[name] = value
        return buffer


def _places(ids: Sequence[int]) -> List[int]:
    """The place of each buffer from the first one on, from 1; 0 for one that is not among them."""
    first = min(ids)
    places = [0] * (max(ids) - first + 1)
    for place, buffer_id in enumerate(ids, start=1):
        places[buffer_id - first] = place
    return places


@dataclass(frozen=True)
class Copy:
    """A query for buffers that are known by number, and the way in which they come: a COPY."""

    sql: Fragment
    values: Dict[str, Any]
    ids: Sequence[int]

    def run(self, session: PsycopgDatabase, put: Callable[[Fields], None]) -> None:
        """Hand each row to `put`: the number of the buffer, then the columns."""
        parser = CopyParser()

        def take(piece: bytes) -> None:
            for row in parser.feed(piece):
                put(row)

        session.copy_out(query("copy", "copied", rows=self.sql), take, **self.values)

    def cancel(self, session: PsycopgDatabase) -> None:
        """End `run` from another thread."""
        session.cancel()


@dataclass(frozen=True)
class Retrieve(Copy):
    """The same from the segment itself; by COPY where that lets nobody in, which is told to `on_refusal`."""

    on_refusal: Callable[[], None]
    _retrieval: Retrieval = field(default_factory=Retrieval)
    _copies: threading.Event = field(default_factory=threading.Event)

    def run(self, session: PsycopgDatabase, put: Callable[[Fields], None]) -> None:
        def take(row: Row) -> None:
            number, *columns = row.values()
            put((memoryview(_NUMBER.pack(number)), *(None if each is None else memoryview(each) for each in columns)))

        if not self._copies.is_set() and self._retrieval.run(session, self.sql, self.values, take):
            return
        self._copies.set()
        self.on_refusal()
        super().run(session, put)

    def cancel(self, session: PsycopgDatabase) -> None:
        if self._copies.is_set():
            super().cancel(session)
        self._retrieval.cancel()


class Reader:
    """A thread that fetches buffers, and again each time it is told to. Its methods are for one consumer."""

    def __init__(self, connect: Connect, copy: Copy, ahead_bytes: int) -> None:
        self._connect = connect
        self._copy = copy
        self._ahead_bytes = ahead_bytes
        self._state = threading.Condition()
        #: Rows that wait to be taken, and their bytes.
        self._rows: Deque[Tuple[Fields, int]] = deque()
        self._waiting_bytes = 0
        #: How often they are to be fetched in all.
        self._passes = 1
        self._stopped = False
        self._outcome = _Outcome()
        #: Until when it waits with a statement open, once it is ahead of any read; None during a read.
        self._deadline: Optional[float] = None
        self._session: Optional[PsycopgDatabase] = None
        self._thread = threading.Thread(target=self._run, name="cerebro reader", daemon=True)
        self._thread.start()

    def take(self) -> Fields:
        """The next row; waits for it. Raises what ended the reader."""
        with self._state:
            self._state.wait_for(lambda: self._rows or self._stopped or self._outcome.over)
            if self._stopped:
                raise RunError("this read was ended by a later one of the same source")
            if not self._rows:
                assert self._outcome.error is not None
                raise self._outcome.error
            row, size = self._rows.popleft()
            self._waiting_bytes -= size
            self._state.notify_all()
            return row

    def again(self) -> None:
        """Go on with the same rows, before anyone asks for them."""
        with self._state:
            self._passes += 1
            self._deadline = time.monotonic() + IDLE_SECONDS
            self._state.notify_all()

    def go_on(self, ids: Sequence[int]) -> bool:
        """Whether it is ahead with these very rows; then they can be taken."""
        with self._state:
            fits = self._deadline is not None and not self._outcome.over and self._copy.ids == ids
            if fits:
                self._deadline = None
                self._state.notify_all()
            return fits

    def close(self) -> None:
        """End the statement, the session and the thread; twice is fine."""
        with self._state:
            self._stopped = True
            self._rows.clear()
            self._state.notify_all()
        self._thread.join(STOP_SECONDS)  # most often it waits for room, and ends by itself
        while self._thread.is_alive():
            self._cancel()
            self._thread.join(STOP_SECONDS)

    def _cancel(self) -> None:
        with self._state:  # the session is not closed meanwhile
            if self._session is not None:
                self._copy.cancel(self._session)

    def _run(self) -> None:
        with self._outcome, self._connect() as session:
            try:
                with self._state:
                    self._session = session
                for number in itertools.count():
                    with self._state:
                        self._wait(lambda: number < self._passes)  # noqa: B023
                    self._pass(session)
            finally:
                with self._state:
                    self._session = None
        with self._state:
            self._outcome.over = True
            self._state.notify_all()

    def _pass(self, session: PsycopgDatabase) -> None:
        count = 0

        def put(row: Fields) -> None:
            nonlocal count
            count += 1
            self._put(row)

        self._copy.run(session, put)
        if count != len(self._copy.ids):
            raise RunError(
                f"the packed table has {count} buffers where {len(self._copy.ids)} were expected; {_CHANGED}"
            )

    def _put(self, row: Fields) -> None:
        size = sum(len(field) for field in row if field is not None)
        with self._state:
            self._wait(lambda: not self._rows or self._waiting_bytes + size <= self._ahead_bytes, patient=False)
            self._rows.append((row, size))
            self._waiting_bytes += size
            self._state.notify_all()

    def _wait(self, ready: Callable[[], bool], patient: bool = True) -> None:
        """Wait, with the lock held, and end the thread when it is to stop."""
        while not ready() and not self._stopped:
            until = None if patient else self._deadline
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                raise _StoppedError
            self._state.wait(left)
        if self._stopped:
            raise _StoppedError


class _StoppedError(Exception):
    """Ends a reader from inside."""


class _Outcome:
    """Keeps whatever ends a thread, for another one to raise."""

    def __init__(self) -> None:
        self.over = False
        self.error: Optional[BaseException] = None

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> bool:
        self.error = None if isinstance(error, _StoppedError) else error
        return True
