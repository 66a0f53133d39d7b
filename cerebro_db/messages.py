"""How a session and the trainer in a segment's process talk, on Greenplum.

A function in a segment's process can read no distributed table and write nothing. So the session that coordinates
a hop sends a message with each statement, JSON with bytes beside it, and gets an answer of the same form:

    {"do": "warm"}                                       -> {"answer": "warm", "torch"}   first imports are paid for
    {"do": "check", "plan", "initial"}                   -> {"answer": "checked"}         every config can be built
    {"do": "open", "token", "plan", "segment_id", "buffers"}       -> wants, or up        a new trainer of this name
    {"do": "rows", "token"}, the columns of one buffer   -> none, until all that were wanted are there
    {"do": "state", "token", "chunks"}, their bytes      -> {"answer": "ready"}           a part of a large state
    {"do": "hop", "token", "visit", "chunks"}, what is left of it  -> wants, or finished
    {"do": "round", "token", "visit"}, the config's state as an answer left it  -> finished with all chunks, or failed
    {"do": "take", "token"}                              -> {"answer": "chunks", "chunks", "more"}, their bytes

    {"answer": "wants", "buffers"}      send these buffers as "rows", in any order
    {"answer": "up", "pid"}             the segment can take a hop
    {"answer": "finished", "pid", "visited", "state_bytes", "chunks", "more"}, bytes of the new state's first chunks
    {"answer": "unknown"}               no trainer of this name: the process is a new one
    {"answer": "failed", "message", "sqlstate"}          an error of ours; of a round with the chunks that came

Between statements the trainer stays in the process's memory, and with it a hop whose rows come window by window.
"""

from __future__ import annotations

import json
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Sequence

from cerebro_db.errors import SQL_ERRORS, CerebroError, RunError
from cerebro_db.state_store import Chunk

#: Most bytes of chunks in a message, unless a single one is larger: far below what a value may have.
PACKET_BYTES = 64 * 1024 * 1024


class Message(NamedTuple):
    """JSON, and bytes that belong to it."""

    head: Dict[str, Any]
    data: Sequence[bytes] = ()

    @classmethod
    def opened(cls, parts: Sequence[bytes]) -> Message:
        return cls(json.loads(parts[0]), parts[1:])

    @classmethod
    def failed(cls, error: CerebroError) -> Message:
        return cls({"answer": "failed", "message": str(error), "sqlstate": error.sqlstate})

    @classmethod
    def of_chunks(cls, head: Dict[str, Any], chunks: Sequence[Chunk]) -> Message:
        """A message that brings pieces of a state."""
        named = [(part, number) for part, number, _ in chunks]
        return cls({**head, "chunks": named}, [data for _, _, data in chunks])

    def sealed(self) -> List[bytes]:
        """As a `bytea[]`."""
        return [json.dumps(self.head).encode(), *self.data]

    def chunks(self) -> List[Chunk]:
        """The pieces of a state that it brings."""
        return [(part, number, data) for (part, number), data in zip(self.head["chunks"], self.data)]

    def error(self) -> CerebroError:
        """Of an answer "failed": the error that it was."""
        return SQL_ERRORS.get(self.head["sqlstate"], RunError)(self.head["message"])


def packets(chunks: Iterable[Chunk]) -> Iterator[List[Chunk]]:
    """Chunks in groups for one message each; at least one group, which may be empty."""
    packet: List[Chunk] = []
    size = 0
    for chunk in chunks:
        if packet and size + len(chunk[2]) > PACKET_BYTES:
            yield packet
            packet, size = [], 0
        packet.append(chunk)
        size += len(chunk[2])
    yield packet
