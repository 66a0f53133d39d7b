"""Where a config's state rests between hops: chunks in the catalog, read and written by the session that trains.

Inside a backend values pass as they are. A client's session moves them by binary COPY: as literals they would
double in size and be parsed, which takes several times as long. COPY goes into a temporary table of the
session, which the catalog makes and one of its functions takes the rows from.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, Iterator, List, Sequence, Tuple

from cerebro_db.copy_format import CopyParser, encoded
from cerebro_db.database import Database, one
from cerebro_db.phases import Spent
from cerebro_db.sqltext import query
from cerebro_db.visits import Taken, Visit, Visited

#: Part (weights, rest or initial), number and bytes of a piece of a state.
Chunk = Tuple[str, int, bytes]


class StateStore:
    """States of one run's configs. Used from one thread."""

    def __init__(self, database: Database, run_id: int) -> None:
        self._database = database
        self._run_id = run_id
        #: The session as one that copies; None inside a backend.
        self._client: Any = database if hasattr(database, "copy_in") else None
        self._staged = self._client is not None and self._make_stage()

    def load(self, mst_key: int) -> Dict[str, bytes]:
        """The parts that are stored, by name: weights and rest, or initial, or none."""
        return joined(self.chunks(mst_key))

    def untouched(self, mst_key: int, epoch: int) -> bool:
        """Whether no hop of this epoch has changed the state."""
        row = one(self._database, query("catalog", "epoch_hops"), run_id=self._run_id, mst_key=mst_key, epoch=epoch)
        return not row["hops"]

    def chunks(self, mst_key: int) -> Iterator[Chunk]:
        """What is stored piece by piece, each part's in order."""
        return self._copied(mst_key) if self._client is not None else self._selected(mst_key)

    def save(self, mst_key: int, chunks: Iterable[Chunk]) -> None:
        """Replace the state; call inside a transaction."""
        keys = {"run_id": self._run_id, "mst_key": mst_key}
        self._database.rows(query("catalog", "clear_state"), **keys)
        for part, chunk, data in chunks:
            if self._staged:
                row = (part.encode(), chunk.to_bytes(4, "big"), data)
                self._client.copy_in(query("catalog", "stage_state"), encoded([row]))
            else:
                self._database.rows(query("catalog", "save_state"), part=part, chunk=chunk, data=data, **keys)
        if self._staged:
            self._database.rows(query("catalog", "save_staged"), **keys)

    def record(
        self, segment_id: int, visit: Visit, visited: Sequence[Visited], taken: Taken, sizes: Sequence[int]
    ) -> Dict[str, Any]:
        """Record the finished hops and their events, in the transaction that saves the states of `sizes` bytes.

        Gives what the coordinator is told: seconds, and the configs that diverged.
        """
        keys = {"run_id": self._run_id, "epoch": visit.epoch, "segment_id": segment_id}
        for mst_key, each, size in zip(visit.mst_keys, visited, sizes):
            values = each.values(taken, size, len(visited))
            self._database.rows(query("catalog", "save_hop"), mst_key=mst_key, **keys, **values)
        diverged = [mst_key for mst_key, each in zip(visit.mst_keys, visited) if each.diverged]
        return {"seconds": taken.seconds, "diverged": diverged}

    def profile(self, segment_id: int, visit: Visit, spent: Sequence[Spent]) -> None:
        """Keep where the time of a visit went, beside its hops."""
        keys = {"run_id": self._run_id, "epoch": visit.epoch, "segment_id": segment_id}
        phases, calls, seconds = map(list, zip(*spent))
        for mst_key in visit.mst_keys:
            self._database.rows(
                query("catalog", "save_profile"), mst_key=mst_key, phases=phases, calls=calls, seconds=seconds, **keys
            )

    def _selected(self, mst_key: int) -> Iterator[Chunk]:
        stored = query("catalog", "load_state")
        for row in self._database.stream(stored, run_id=self._run_id, mst_key=mst_key):
            yield row["part"], row["chunk"], row["data"]

    def _copied(self, mst_key: int) -> Iterator[Chunk]:
        parser = CopyParser()
        found: List[Any] = []
        copy = query("catalog", "copy_state")
        self._client.copy_out(
            copy, lambda piece: found.extend(parser.feed(piece)), run_id=self._run_id, mst_key=mst_key
        )
        for part, chunk, data in found:
            yield bytes(part).decode(), int.from_bytes(chunk, "big"), bytes(data)

    def _make_stage(self) -> bool:
        """Whether this session could make the temporary table; a role may lack the right to."""
        allowed = bool(one(self._database, query("catalog", "may_stage"))["allowed"])
        if allowed:
            self._database.rows(query("catalog", "make_stage"))
        return allowed


def joined(chunks: Iterable[Chunk]) -> Dict[str, bytes]:
    """Whole parts of a state, by name."""
    pieces: Dict[str, List[bytes]] = {}
    for part, _, data in chunks:
        pieces.setdefault(part, []).append(data)
    return {part: b"".join(data) for part, data in pieces.items()}
