"""A segment's trainer in the process of Greenplum's segment, by `messages`. Used from one thread."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any, Dict, Generator, Iterator, List, Mapping, Optional, Sequence, Tuple

import torch

from cerebro_db import factories, hops
from cerebro_db.batches import Buffer, Columns, Gathering
from cerebro_db.database import Database
from cerebro_db.errors import CerebroError, RunError, UsageError
from cerebro_db.messages import Message, Named, named, of_configs, packets
from cerebro_db.packed_source import PackedSource
from cerebro_db.plan import Plan
from cerebro_db.sqltext import TableName
from cerebro_db.train import Check
from cerebro_db.trainer import Sources, Trainer, Visiting, warm_up
from cerebro_db.visits import Visit

#: Something that goes on when the buffers of the positions that it asks for are there, and ends with an answer.
Course = Generator[List[int], None, Message]

#: Most bytes of a state that a round moves: a row of a table ends at 1 GB.
LARGEST_ROUND_STATE = 900_000_000
#: What a config's own training can raise. Not what the server has pending, which ends the round.
_OF_TRAINING = (
    CerebroError, ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, OSError, RuntimeError,
    TypeError, ValueError,
)  # fmt: skip
_KEY = "cerebro resident"
_UNKNOWN = Message({"answer": "unknown"})


@dataclass(frozen=True)
class Process:
    """The segment's process: what it keeps between statements, and its own view of the database."""

    memory: Dict[Any, Any]
    #: Reads replicated tables only.
    database: Database
    check: Check

    def answer(self, message: Message, buffer_id: int) -> Optional[Message]:
        """Do what a message asks; None for rows that are not the last ones."""
        try:
            return self._answer(message, buffer_id)
        except CerebroError as error:
            return Message.failed(error)

    def _answer(self, message: Message, buffer_id: int) -> Optional[Message]:
        head = message.head
        do = head["do"]
        if do == "warm":
            warm_up()
            return Message({"answer": "warm", "torch": torch.__version__})
        if do == "check":
            groups = hops.check_plan(self.database, Plan.from_json(head["plan"]), head["initial"])
            return Message({"answer": "checked", "groups": groups})
        if do == "open":
            self.memory.pop(_KEY, None)  # the one before goes first, with its rows
            resident = self.memory[_KEY] = self._resident(head)
            return resident.open()
        kept: Optional[Resident] = self.memory.get(_KEY)
        if kept is None or kept.token != head["token"]:
            return _UNKNOWN
        return kept.answer(message, buffer_id)

    def _resident(self, head: Mapping[str, Any]) -> Resident:
        plan = Plan.from_json(head["plan"])
        validation = None
        if head["validation"] is not None:
            validation = PackedSource(self.database, plan.layout.names, TableName(*head["validation"]), None)
        buffers = Buffers(head["buffers"])
        allowed = factories.registry(self.database, (config.model_arch for config in plan.configs))
        trainer = Trainer(plan, head["segment_id"], Sources(buffers, validation), allowed, self.check)
        return Resident(head["token"], trainer, buffers)


class Buffers:
    """The buffers of a segment, which come by themselves and are not read."""

    def __init__(self, buffers: Sequence[Tuple[int, int]]) -> None:
        self.ids = [number for number, _ in buffers]
        self.rows: Sequence[int] = [rows for _, rows in buffers]

    def read(self, numbers: Optional[Sequence[int]]) -> Iterator[Buffer]:
        raise UsageError("the rows of a segment come to its process, which cannot read them")


class Resident:
    """A trainer that waits for its rows, and for a config's state."""

    def __init__(self, token: str, trainer: Trainer, buffers: Buffers) -> None:
        self.token = token
        self._trainer = trainer
        self._ids = buffers.ids
        self._names = trainer.plan.layout.names
        self._up = False
        #: What goes on when the rows that it waits for are there.
        self._course: Optional[Course] = None
        self._gathering: Optional[Gathering] = None
        #: buffer_id -> its place among those that are waited for.
        self._places: Dict[int, int] = {}
        #: What came of a state, and what has not gone of a new one.
        self._state: List[Named] = []
        self._outgoing: Iterator[List[Named]] = iter(())
        self._owed = 0

    def open(self) -> Message:
        """Ask for the rows, if they are kept."""
        return self._begin(self._opened())

    def answer(self, message: Message, buffer_id: int) -> Optional[Message]:
        do = message.head["do"]
        if do == "rows":
            return self._rows(buffer_id, message.data)
        if not self._up:
            return _UNKNOWN
        if do == "take":
            return self._taken({"answer": "chunks"})
        if do == "round":
            return self._round(_visit(message), Message.opened(message.data).chunks())
        self._state.extend(message.chunks())
        if do == "state":
            return Message({"answer": "ready"})
        visit = _visit(message)
        states, self._state = of_configs(visit.mst_keys, self._state), []
        return self._begin(self._hop(visit, states))

    def _rows(self, buffer_id: int, data: Sequence[bytes]) -> Optional[Message]:
        if self._gathering is None:
            return _UNKNOWN
        self._gathering.put(self._places[buffer_id], dict(zip(self._names, data)))
        return self._go_on() if self._gathering.complete else None

    def _begin(self, course: Course) -> Message:
        self._course = course
        return self._go_on()

    def _go_on(self) -> Message:
        """Until rows are missing again, or to the end."""
        assert self._course is not None
        try:
            numbers = next(self._course)
        except StopIteration as end:
            answer: Message = end.value
            return answer
        self._gathering = self._trainer.rows.gathering(numbers)
        self._places = {self._ids[number]: place for place, number in enumerate(numbers)}
        return Message({"answer": "wants", "buffers": [self._ids[number] for number in numbers]})

    def _gathered(self) -> Columns:
        assert self._gathering is not None
        columns, self._gathering = self._gathering.columns(), None
        return columns

    def _opened(self) -> Course:
        if self._trainer.rows.fits:
            yield list(range(len(self._ids)))
            self._trainer.rows.keep(self._gathered())
        self._up = True
        return Message({"answer": "up", "pid": os.getpid()})

    def _hop(self, visit: Visit, states: List[Dict[str, bytes]]) -> Course:
        trainer = self._trainer
        visiting = trainer.begin(visit, states)
        states.clear()  # as large as the models, and not needed while they train
        if trainer.rows.fits:
            visiting.feed(trainer.batches(visit))
        else:
            yield from self._windows(visit, visiting)
        answer, chunks = _ended(visiting)
        self._outgoing, self._owed = packets(chunks), sum(answer["state_bytes"])
        return self._taken(answer)

    def _round(self, visit: Visit, before: List[Named]) -> Message:
        """A whole visit: the new state, or that of before when there is none; an error is of this config alone."""
        started = time.perf_counter()
        try:
            visiting = self._trainer.begin(visit, of_configs(visit.mst_keys, before))
            visiting.feed(self._trainer.batches(visit))
            answer, after = _ended(visiting)
            _require_room(visit.mst_keys[0], answer["state_bytes"][0])
        except _OF_TRAINING as error:
            ours = error if isinstance(error, CerebroError) else RunError(f"{type(error).__name__}: {error}")
            return Message.of_chunks(Message.failed(ours).head, before)
        chunks = before if answer["visited"][0]["diverged"] else after
        return Message.of_chunks({**answer, "seconds": time.perf_counter() - started}, chunks)

    def _windows(self, visit: Visit, visiting: Visiting) -> Generator[List[int], None, None]:
        """Train on windows that come one after the other."""
        for key, batch_rows in self._trainer.passes(visit):
            windows = self._trainer.rows.windows(batch_rows)
            for numbers, order in self._trainer.rows.plan(key):
                yield numbers
                visiting.feed(windows.batches(self._gathered(), order))
                if visiting.diverged:
                    return
            visiting.feed(windows.rest())

    def _taken(self, head: Dict[str, Any]) -> Message:
        """Some chunks of the new state, and whether more are to be taken."""
        chunks = next(self._outgoing)
        self._owed -= sum(len(chunk[2]) for _, chunk in chunks)
        if not self._owed:
            self._outgoing = iter(())  # it holds the whole states
        return Message.of_chunks({**head, "more": self._owed > 0}, chunks)


def _visit(message: Message) -> Visit:
    mst_keys, epoch, last = message.head["visit"]
    return Visit(tuple(mst_keys), epoch, last)


def _ended(visiting: Visiting) -> Tuple[Dict[str, Any], List[Named]]:
    """The answer to a visit, and the new states."""
    visited = [each.to_json() for each in visiting.end()]
    blobs = [visiting.dump(number) for number in range(len(visited))]
    chunks = [chunk for key, each in zip(visiting.visit.mst_keys, blobs) for chunk in named(key, each.chunks())]
    sizes = [each.size for each in blobs]
    return {"answer": "finished", "pid": os.getpid(), "visited": visited, "state_bytes": sizes}, chunks


def _require_room(mst_key: int, size: int) -> None:
    if size > LARGEST_ROUND_STATE:
        raise UsageError(
            f"mst_key {mst_key}: its state takes {size} bytes, and a round moves at most {LARGEST_ROUND_STATE}; "
            "take order 'rotation', which moves any state, or a smaller model"
        )
