"""How a session and the trainer in a segment's process talk, on Greenplum.

A function in a segment's process can read no distributed table and write nothing. So the session that coordinates
a hop sends a message with each statement, JSON with bytes beside it, and gets an answer of the same form:

    {"do": "warm"}                                       -> {"answer": "warm", "torch"}   first imports are paid for
    {"do": "check", "plan", "initial"}                   -> {"answer": "checked", "groups"}   every config can be built
    {"do": "open", "token", "plan", "segment_id", "buffers"}       -> wants, or up        a new trainer of this name
    {"do": "rows", "token"}, the columns of one buffer   -> none, until all that were wanted are there
    {"do": "state", "token", "chunks"}, their bytes      -> {"answer": "ready"}           a part of large states
    {"do": "hop", "token", "visit", "chunks"}, what is left of it  -> wants, or finished
    {"do": "round", "token", "visit"}, the config's state as an answer left it  -> finished with all chunks, or failed
    {"do": "take", "token"}                              -> {"answer": "chunks", "chunks", "more"}, their bytes

    {"answer": "wants", "buffers"}      send these buffers as "rows", in any order
    {"answer": "up", "pid"}             the segment can take a hop
    {"answer": "finished", "pid", "visited", "state_bytes", "chunks", "more"}, bytes of the new states' first chunks;
                                        visited and state_bytes config by config
    {"answer": "unknown"}               no trainer of this name: the process is a new one
    {"answer": "failed", "message", "sqlstate"}          an error of ours; of a round with the chunks that came

A chunk is named by its part, number and config. Between statements the trainer stays in the process's memory, and with
it a hop whose rows come window by window.
"""

from __future__ import annotations

import json
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Sequence, Tuple

from cerebro_db.errors import SQL_ERRORS, CerebroError, RunError
from cerebro_db.state_store import Chunk, joined

#: A config and a piece of its state.
Named = Tuple[int, Chunk]

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
    def of_chunks(cls, head: Dict[str, Any], chunks: Sequence[Named]) -> Message:
        """A message that brings pieces of states."""
        named = [(part, number, mst_key) for mst_key, (part, number, _) in chunks]
        return cls({**head, "chunks": named}, [chunk[2] for _, chunk in chunks])

    def sealed(self) -> List[bytes]:
        """As a `bytea[]`."""
        return [json.dumps(self.head).encode(), *self.data]

    def chunks(self) -> List[Named]:
        """The pieces of states that it brings."""
        named = zip(self.head["chunks"], self.data)
        return [(mst_key, (part, number, data)) for (part, number, mst_key), data in named]

    def error(self) -> CerebroError:
        """Of an answer "failed": the error that it was."""
        return SQL_ERRORS.get(self.head["sqlstate"], RunError)(self.head["message"])


def packets(chunks: Iterable[Named]) -> Iterator[List[Named]]:
    """Chunks in groups for one message each; at least one group, which may be empty."""
    packet: List[Named] = []
    size = 0
    for mst_key, chunk in chunks:
        if packet and size + len(chunk[2]) > PACKET_BYTES:
            yield packet
            packet, size = [], 0
        packet.append((mst_key, chunk))
        size += len(chunk[2])
    yield packet


def named(mst_key: int, chunks: Iterable[Chunk]) -> Iterator[Named]:
    """The chunks of one config."""
    return ((mst_key, chunk) for chunk in chunks)


def of_configs(mst_keys: Iterable[int], chunks: Sequence[Named]) -> List[Dict[str, bytes]]:
    """The parts of each config's state, in the order of the configs; none for one without chunks."""
    return [joined(chunk for key, chunk in chunks if key == mst_key) for mst_key in mst_keys]
