"""A trainer in another process, told by messages: the same bits as one that reads its rows, whatever way they come."""

from __future__ import annotations

import json
import math
import os
import random
from dataclasses import asdict
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np
import pytest
import torch

from cerebro_db import messages, options
from cerebro_db.errors import UsageError
from cerebro_db.layout import Input, Layout, Target
from cerebro_db.messages import Message, Named, of_configs, packets
from cerebro_db.options import Options
from cerebro_db.plan import ConfigPlan, Plan, SegmentPlan
from cerebro_db.resident import Process
from cerebro_db.sqltext import TableName
from cerebro_db.state_store import joined
from cerebro_db.trainer import Sources, Trainer
from cerebro_db.visits import Visit, Visited

SIZES = (7, 5, 9, 1, 8)
LAYOUT = Layout(
    inputs=(Input("img", "array", "|u1", (16,), ("img",)),),
    target=Target("y", "class", ">i4", (), "y", "text", classes=("a", "b", "c"), outputs=3),
    normalizing_const=255.0,
)
ADAM = json.dumps({"optimizer": "adam", "lr": 0.01, "loss": "cross_entropy", "metrics": ["accuracy"]})
HOPELESS = json.dumps({"optimizer": "sgd", "lr": 1e38, "loss": "cross_entropy", "metrics": ["accuracy"]})
DROPOUT = json.dumps({"model": "mlp", "hidden": [8], "dropout": 0.5})
TWICE, HOPELESS_KEY = 1, 2
STATE = ("img", "y")


def plan_of(cache: int) -> Plan:
    """Two configs over 30 rows of 20 bytes; sizes in kB where a server's are in MB."""
    table = TableName("public", "packed")
    configs = (
        ConfigPlan(TWICE, 1, DROPOUT, ADAM, "batch_size=4, epochs=2"),
        ConfigPlan(HOPELESS_KEY, 1, DROPOUT, HOPELESS, "batch_size=4"),
    )
    return Plan(
        source=table, packed=table, packed_at="", validation=None, layout=LAYOUT,
        segments=(SegmentPlan(0, 0, sum(SIZES)),), configs=configs, epochs=2, metrics_frequency=1,
        options=Options(cache_mb=cache, window_mb=1), outputs={}, threads=1,
    )  # fmt: skip


class Rows:
    """Buffers whose numbers are not their positions."""

    def __init__(self) -> None:
        self.rows: Sequence[int] = SIZES
        random_bytes = np.random.RandomState(1)
        self.buffers = {
            11 + 3 * place: {
                "img": random_bytes.randint(0, 256, size * 16).astype("|u1").tobytes(),
                "y": random_bytes.randint(0, 3, size).astype(">i4").tobytes(),
            }
            for place, size in enumerate(SIZES)
        }

    def read(self, numbers: Optional[Sequence[int]]) -> Iterator[Dict[str, bytes]]:
        every = list(self.buffers.values())
        yield from every if numbers is None else [every[number] for number in numbers]


class NoDatabase:
    """What a process has that reads nothing."""

    def rows(self, sql: Any, **values: Any) -> List[Any]:
        raise AssertionError(f"nothing is to be read: {sql}")

    stream = notice = rows


def nothing() -> None: ...


def opening(plan: Plan, token: str = "t") -> Dict[str, Any]:
    sizes = list(zip(Rows().buffers, SIZES))
    head = {"do": "open", "token": token, "plan": plan.to_json(), "segment_id": 0, "buffers": sizes}
    return {**head, "validation": None}


class Wire:
    """Messages to a process as the session sends them; buffers arrive in any order."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._chance = random.Random(5)
        self.process = Process({}, NoDatabase(), nothing)
        self.asked: List[List[int]] = []

    def tell(self, head: Dict[str, Any], chunks: Sequence[Named] = ()) -> Message:
        message = Message.of_chunks(head, chunks)
        return self.brought(self.sent(message), head.get("token", ""))

    def sent(self, message: Message, buffer_id: int = 11) -> Optional[Message]:
        """A message, by the form in which it travels."""
        answer = self.process.answer(Message.opened(message.sealed()), buffer_id)
        return answer and Message.opened(answer.sealed())

    def brought(self, answer: Optional[Message], token: str) -> Message:
        while answer is not None and answer.head["answer"] == "wants":
            wanted = list(answer.head["buffers"])
            self.asked.append(sorted(wanted))
            self._chance.shuffle(wanted)
            answers = [self._row(number, token) for number in wanted]
            assert answers[:-1] == [None] * (len(wanted) - 1)
            answer = answers[-1]
        assert answer is not None
        return answer

    def _row(self, number: int, token: str) -> Optional[Message]:
        buffer = self._rows.buffers[number]
        return self.sent(Message({"do": "rows", "token": token}, [buffer[name] for name in STATE]), number)

    def open(self, plan: Plan, token: str = "t") -> Message:
        return self.tell(opening(plan, token))

    def hop(self, visit: Visit, state: Sequence[Named], token: str = "t") -> Tuple[Message, List[Named]]:
        """A hop with all that belongs to it: the answer, and the new state."""
        *parts, rest = packets(state)
        for part in parts:
            assert self.tell({"do": "state", "token": token}, part).head == {"answer": "ready"}
        answer = self.tell({"do": "hop", "token": token, "visit": visit}, rest)
        chunks, more = answer.chunks(), answer.head["more"]
        while more:
            following = self.tell({"do": "take", "token": token})
            chunks, more = chunks + following.chunks(), following.head["more"]
        return answer, chunks


@pytest.fixture(autouse=True)
def kilobytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings in MB count as so many hundred bytes: windows of 5 rows."""
    monkeypatch.setattr(options, "MB", 100)


def pulled(plan: Plan, visits: Sequence[Visit]) -> Tuple[Dict[str, bytes], Dict[str, Any]]:
    """State and counts after the visits, by a trainer that reads its rows itself."""
    worker = Trainer(plan, 0, Sources(Rows(), None), {}, nothing)
    state: Dict[str, bytes] = {}
    for visit in visits:
        visiting = worker.begin(visit, [state])
        visiting.feed(worker.batches(visit))
        (visited,) = visiting.end()
        state = joined(visiting.dump(0).chunks())
    return state, counted(asdict(visited))


@pytest.mark.parametrize(("visit", "kept", "moments"), [
    (Visit((TWICE,), 1, False), True, False),
    (Visit((TWICE,), 1, True), True, True),
    (Visit((TWICE,), 2, True), False, False),
], ids=["goes elsewhere", "may stay", "is done"])  # fmt: skip
def test_what_a_visit_leaves_is_kept_as_far_as_it_is_of_use(visit: Visit, kept: bool, moments: bool) -> None:
    worker = Trainer(plan_of(1000), 0, Sources(Rows(), None), {}, nothing)
    visiting = worker.begin(visit, [{}])
    visiting.feed(worker.batches(visit))
    visiting.end()
    visiting.dump(0)
    assert worker.holds(TWICE) == kept
    if kept:
        member = worker._built.take(TWICE)
        assert member is not None
        assert bool(member.trainee.optimizer.state) == moments
        assert all(parameter.grad is None for parameter in member.trainee.module.parameters())


def counted(visited: Dict[str, Any]) -> Dict[str, Any]:
    return {name: value for name, value in visited.items() if not name.endswith("seconds")}


VISITS = (Visit((TWICE,), 1, True), Visit((TWICE,), 2, True))


@pytest.mark.parametrize(("cache", "asked"), [(1000, 1), (0, 20)], ids=["kept", "by windows"])
def test_bits_and_sums_are_those_of_a_trainer_that_reads(cache: int, asked: int) -> None:
    plan, wire = plan_of(cache), Wire(Rows())
    assert wire.open(plan).head == {"answer": "up", "pid": os.getpid()}
    state: List[Named] = []
    for visit in VISITS:
        answer, state = wire.hop(visit, state)
    expected, counts = pulled(plan, VISITS)
    assert of_configs([TWICE], state) == [expected]
    assert list(map(counted, answer.head["visited"])) == [counts]
    assert counts["row_count"] == 2 * sum(SIZES)
    assert len(wire.asked) == asked
    assert sorted(set(sum(wire.asked, []))) == [11, 14, 17, 20, 23]


def test_a_state_of_many_packets_goes_in_and_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "PACKET_BYTES", 1500)
    monkeypatch.setattr("cerebro_db.state.CHUNK_BYTES", 400)
    plan, wire = plan_of(1000), Wire(Rows())
    wire.open(plan)
    state: List[Named] = []
    for visit in VISITS:
        answer, state = wire.hop(visit, state)
    assert len(answer.data) <= 4 < len(state)
    assert answer.head["more"]
    assert of_configs([TWICE], state) == [pulled(plan, VISITS)[0]]
    assert answer.head["state_bytes"] == [sum(len(data) for _, (_, _, data) in state)]


def test_another_process_says_that_it_does_not_know_the_trainer() -> None:
    wire = Wire(Rows())
    hop = {"do": "hop", "token": "t", "visit": VISITS[0]}
    assert wire.tell(hop).head == {"answer": "unknown"}
    wire.open(plan_of(1000), "other")
    assert wire.tell(hop).head == {"answer": "unknown"}
    assert wire.tell({"do": "rows", "token": "other"}).head == {"answer": "unknown"}


def test_a_trainer_whose_rows_did_not_all_come_takes_no_hop() -> None:
    wire = Wire(Rows())
    answer = wire.sent(Message(opening(plan_of(1000))))
    assert answer is not None
    assert answer.head == {"answer": "wants", "buffers": [11, 14, 17, 20, 23]}
    assert wire.tell({"do": "hop", "token": "t", "visit": VISITS[0]}).head == {"answer": "unknown"}


def test_a_hop_that_was_left_in_its_middle_leaves_no_trace() -> None:
    wire, plan = Wire(Rows()), plan_of(0)
    wire.open(plan)
    wanted = wire.sent(Message.of_chunks({"do": "hop", "token": "t", "visit": VISITS[0]}, ()))
    assert wanted is not None
    assert wanted.head["answer"] == "wants"
    _, state = wire.hop(VISITS[0], [])
    assert of_configs([TWICE], state) == [pulled(plan, VISITS[:1])[0]]


@pytest.mark.parametrize("cache", [1000, 0])
def test_a_loss_that_is_no_number_is_told_and_asks_for_no_further_rows(cache: int) -> None:
    wire = Wire(Rows())
    wire.open(plan_of(cache))
    answer, _ = wire.hop(Visit((HOPELESS_KEY,), 1, False), [])
    assert answer.head["visited"][0]["diverged"] is True
    assert answer.head["visited"][0]["row_count"] < sum(SIZES)
    assert len(wire.asked) < 5


def test_an_error_of_ours_comes_as_an_answer() -> None:
    plan = json.loads(plan_of(0).to_json())
    plan["configs"][0]["model_arch"] = '{"model": "mpl"}'
    failed = Wire(Rows()).tell({"do": "check", "plan": json.dumps(plan), "initial": {}})
    assert isinstance(failed.error(), UsageError)
    assert "mlp" in str(failed.error())


def test_a_buffer_that_changed_is_noticed() -> None:
    wire = Wire(Rows())
    wire.sent(Message(opening(plan_of(1000))))
    with pytest.raises(ValueError, match="holds 3 rows, expected 7"):
        wire.sent(Message({"do": "rows", "token": "t"}, [bytes(48), bytes(12)]))


def test_imports_are_paid_for_and_configs_checked_without_a_trainer() -> None:
    wire = Wire(Rows())
    assert wire.tell({"do": "warm"}).head == {"answer": "warm", "torch": torch.__version__}
    checked = wire.tell({"do": "check", "plan": plan_of(0).to_json(), "initial": {}})
    assert checked.head == {"answer": "checked", "groups": []}


# -- rounds ----------------------------------------------------------------------------------------


def in_round(wire: Wire, visit: Visit, stored: Message) -> Message:
    """A hop of a round: the answer, which is the state that the next one gets."""
    head = {"do": "round", "token": "t", "visit": visit}
    answer = wire.sent(Message(head, stored.sealed()))
    assert answer is not None
    return answer


NO_STATE = Message({"chunks": []})


def test_a_round_takes_a_state_and_gives_the_whole_new_one() -> None:
    plan, wire = plan_of(1000), Wire(Rows())
    wire.open(plan)
    stored = NO_STATE
    for visit in VISITS:
        stored = in_round(wire, visit, stored)
    expected, counts = pulled(plan, VISITS)
    assert of_configs([TWICE], stored.chunks()) == [expected]
    assert list(map(counted, stored.head["visited"])) == [counts]
    assert stored.head["answer"] == "finished"
    assert stored.head["seconds"] > 0


def test_a_round_in_which_the_loss_is_no_number_leaves_the_state_and_json_that_servers_read() -> None:
    wire = Wire(Rows())
    wire.open(plan_of(1000))
    answer = in_round(wire, Visit((HOPELESS_KEY,), 1, True), NO_STATE)
    assert answer.chunks() == []
    assert answer.head["state_bytes"][0] > 0
    visited = Visited.from_json(answer.head["visited"][0])
    assert visited.diverged
    assert visited.loss is not None
    assert not math.isfinite(visited.loss)
    json.loads(answer.sealed()[0], parse_constant=pytest.fail)


@pytest.mark.parametrize("error", [RuntimeError("too large"), UsageError("too large")])
def test_an_error_in_a_round_is_an_answer_with_the_state_of_before(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    wire = Wire(Rows())
    wire.open(plan_of(1000))
    before = in_round(wire, VISITS[0], NO_STATE)

    def fails(*arguments: Any) -> None:
        raise error

    monkeypatch.setattr(Trainer, "begin", fails)
    answer = in_round(wire, VISITS[1], before)
    assert answer.head["answer"] == "failed"
    assert "too large" in answer.head["message"]
    assert answer.chunks() == before.chunks()


def test_a_state_that_no_row_holds_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cerebro_db.resident.LARGEST_ROUND_STATE", 100)
    wire = Wire(Rows())
    wire.open(plan_of(1000))
    answer = in_round(wire, VISITS[0], NO_STATE)
    assert answer.chunks() == []
    assert answer.head["message"].startswith("mst_key 1: its state takes ")
    assert "at most 100; take order 'rotation'" in answer.head["message"]
