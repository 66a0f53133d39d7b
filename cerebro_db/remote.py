"""One segment's worker on Greenplum: rows and modules stay in the segment's own process, which trains (`resident`).

This is the session's side. It sends `messages` by statements that the server dispatches to the one segment that
owns the rows, hands the config's state over once per hop, and writes the new one and the event in one transaction.
No torch here. What the other process keeps may be gone at any time: then it is opened again.
"""

from __future__ import annotations

import secrets
import time
from itertools import groupby
from typing import Any, Dict, Iterator, List, Optional, Sequence

from cerebro_db.catalog import Catalog
from cerebro_db.columns import shape_column
from cerebro_db.database import Database, one, together
from cerebro_db.engines import dialect
from cerebro_db.errors import RunError
from cerebro_db.messages import Message, Named, named, packets
from cerebro_db.names import literal
from cerebro_db.sqltext import Fragment, TableName, ident, query, row_columns
from cerebro_db.state_store import StateStore
from cerebro_db.visits import Place, Taken, Visit, Visited

#: The copy of a validation table that lies on one segment only.
_COPY = TableName("pg_temp", "cerebro_validation")


class Channel:
    """Statements to the process of the segment that owns the rows of one `__dist_key__`."""

    def __init__(self, database: Database, packed: TableName, dist_key: int) -> None:
        self._database = database
        # Literals: the server finds the one segment from them when it plans.
        self._parts = {"packed": packed.sql(), "key": Fragment(f"{dist_key:d}")}
        first = one(database, query("remote", "first_buffer", **self._parts))["buffer_id"]
        if first is None:
            raise RunError(f"table {packed} has no rows of segment {dist_key} any more: it changed during the run")
        #: The first buffer.
        self.first: int = first
        self._first = Fragment(f"{first:d}")

    def tell(self, message: Message) -> Message:
        """Send a message once; its answer. Raises the error that the other side has."""
        sql = query("remote", "tell", buffer=self._first, **self._parts)
        return self._answer(sql, head=message.sealed()[0].decode(), data=list(message.data))

    def bring(self, head: Dict[str, Any], buffers: Sequence[int], columns: Fragment) -> Message:
        """Send columns of these buffers, from where they are; the answer to the last of them."""
        sql = query("remote", "bring", columns=columns, **self._parts)
        return self._answer(sql, head=Message(head).sealed()[0].decode(), buffers=list(buffers))

    def buffers(self, shape: str) -> List[List[int]]:
        """Number and rows of each buffer."""
        rows = self._database.rows(query("remote", "buffers", shape=ident(shape), **self._parts))
        return [[row["buffer_id"], row["rows"]] for row in rows]

    def _answer(self, sql: Fragment, **values: Any) -> Message:
        rows = self._database.rows(sql, **values)
        if not rows:
            raise RunError(f"buffers of table {self._parts['packed']} are gone: it changed during the run")
        answer = Message.opened(rows[-1]["answer"])
        if answer.head["answer"] == "failed":
            raise answer.error()
        if answer.head["answer"] == "unknown":
            raise ForgottenError("the process of a segment was replaced again and again; see the server's log")
        return answer


class ForgottenError(RunError):
    """The segment's process is another one than before, and keeps nothing."""


class RemoteWorker:
    """As `hops.SegmentWorker`, for rows and modules in another process. Used from one thread."""

    def __init__(self, database: Database, place: Place) -> None:
        self._database = database
        self._place = place
        self._columns = place.plan.layout.names
        Catalog(database, place.run_id).join()
        self._states = StateStore(database, place.run_id)
        self._channel = Channel(database, place.plan.packed, place.dist_key)
        self._token = ""
        self._open()

    def hop(self, mst_keys: Sequence[int], epoch: int, last: bool) -> Dict[str, Any]:
        """Have a config, or several as one, trained over this segment; write their new states and the events."""
        started = time.perf_counter()
        visit = Visit(tuple(mst_keys), epoch, last)
        try:
            answer = self._visited(visit)
        except ForgottenError:
            self._open()
            answer = self._visited(visit)
        return self._save(visit, answer, started)

    @property
    def packed(self) -> TableName:
        return self._place.plan.packed

    @property
    def dist_key(self) -> int:
        return self._place.dist_key

    @property
    def first_buffer(self) -> int:
        return self._channel.first

    def told(self, head: Dict[str, Any]) -> str:
        """A message of this kind to the segment's process, for a statement of another."""
        return Message({**head, "token": self._token}).sealed()[0].decode()

    def _open(self) -> None:
        """Make a trainer of a new name in the segment's process, and send it the rows that it keeps."""
        self._token = secrets.token_hex(8)
        plan = self._place.plan
        validation = readable_everywhere(self._database, plan.validation)
        head = {
            "do": "open",
            "token": self._token,
            "plan": plan.to_json(),
            "segment_id": self._place.segment_id,
            "buffers": self._channel.buffers(shape_column(self._columns[0])),
            "validation": validation and (validation.schema, validation.name),
        }
        self._brought(self._channel.tell(Message(head)))

    def _visited(self, visit: Visit) -> Message:
        """Hand the states over and have the configs trained."""
        held: Optional[List[Named]] = None
        chunks = (chunk for key in visit.mst_keys for chunk in named(key, self._states.chunks(key)))
        for packet in packets(chunks):
            if held is not None:
                self._tell({"do": "state"}, held)
            held = packet
        return self._brought(self._tell({"do": "hop", "visit": visit}, held or []))

    def _brought(self, answer: Message) -> Message:
        """Send rows for as long as they are wanted."""
        columns = row_columns("p", self._columns)
        while answer.head["answer"] == "wants":
            head = {"do": "rows", "token": self._token}
            answer = self._channel.bring(head, answer.head["buffers"], columns)
        return answer

    def _tell(self, head: Dict[str, Any], chunks: Sequence[Named] = ()) -> Message:
        return self._channel.tell(Message.of_chunks({**head, "token": self._token}, chunks))

    def _save(self, visit: Visit, answer: Message, started: float) -> Dict[str, Any]:
        visited, sizes = [Visited.from_json(each) for each in answer.head["visited"]], answer.head["state_bytes"]
        with together(self._database):
            states = groupby(self._taken(answer), lambda chunk: chunk[0])
            for (mst_key, chunks), each in zip(states, visited):
                if not each.diverged:  # the last finite state stays
                    self._states.save(mst_key, (chunk for _, chunk in chunks))
            taken = Taken(time.perf_counter() - started)
            return self._states.record(self._place.segment_id, visit, visited, taken, sizes)

    def _taken(self, answer: Message) -> Iterator[Named]:
        """All chunks of the new states, a packet at a time."""
        yield from answer.chunks()
        while answer.head["more"]:
            answer = self._tell({"do": "take"})
            yield from answer.chunks()


def readable_everywhere(database: Database, table: Optional[TableName]) -> Optional[TableName]:
    """A table that a segment's process can read: the table itself if it is replicated, else a copy of this session."""
    if table is None or one(database, dialect(database, "is_everywhere"), table=literal(table))["everywhere"]:
        return table
    database.rows(query("remote", "forget_copy"))
    database.rows(dialect(database, "copy_everywhere", table=table.sql()))
    return _COPY


def prepare(database: Database) -> None:
    """Set what a session needs to send messages, for as long as it lives."""
    database.rows(query("remote", "settings"))
