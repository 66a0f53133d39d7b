"""A state that hops equals one that does not, bit for bit, and holds nothing but safetensors."""

from __future__ import annotations

import json
import struct

import pytest
import torch
from torch import nn

from cerebro_db import objective
from cerebro_db.learners import Alone, Objective
from cerebro_db.params import CompileParams
from cerebro_db.state import CHUNK_BYTES, Blobs, Trainee

OPTIMIZERS = [
    "SGD(lr=0.1)",
    "SGD(lr=0.1, momentum=0.9, nesterov=True)",
    "Adam(lr=0.01, weight_decay=0.001)",
    "Adam(lr=0.01, amsgrad=True)",
    "AdamW(lr=0.01)",
    "RMSprop(lr=0.01, momentum=0.5, centered=True)",
    "Adagrad(lr=0.01)",
    "Adadelta(lr=0.5)",
    "NAdam(lr=0.01)",
    "Adamax(lr=0.01)",
]


def fresh(optimizer: str, schedule: str = "") -> Trainee:
    params = CompileParams.parse(f"loss='cross_entropy', optimizer='{optimizer}'{schedule}")
    module = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3))
    made = objective.optimizer(params, module.parameters())
    return Trainee(module, made, objective.schedule(params, made))


def train(trainee: Trainee, batches: int, first: int) -> None:
    rows = torch.Generator().manual_seed(5)
    x, y = torch.randn(40, 16, 6, generator=rows), torch.randint(0, 3, (40, 16), generator=rows)
    for number in range(first, first + batches):
        Alone(trainee, Objective(nn.functional.cross_entropy)).step((x[number],), y[number])


def hopped(trainee: Trainee, optimizer: str, schedule: str = "") -> Trainee:
    """The same config in another session: built anew from other random numbers, then loaded."""
    blobs = trainee.dump()
    torch.manual_seed(999)
    other = fresh(optimizer, schedule)
    other.load(Blobs(bytes(blobs.weights), bytes(blobs.rest)))
    return other


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_hop_changes_no_bit_of_what_follows(optimizer):
    torch.manual_seed(1)
    whole = fresh(optimizer)
    train(whole, 12, 0)
    torch.manual_seed(1)
    cut = fresh(optimizer)
    for first in (0, 4, 8):
        train(cut, 4, first)
        cut = hopped(cut, optimizer)
    assert cut.dump() == whole.dump()
    assert (cut.steps, whole.steps) == (12, 12)


def test_the_schedule_hops_too():
    schedule = ", lr_schedule='step(step_size=1, gamma=0.5)'"
    trainee = fresh("SGD(lr=0.8)", schedule)
    train(trainee, 1, 0)
    trainee.schedule.step()
    other = hopped(trainee, "SGD(lr=0.8)", schedule)
    assert other.optimizer.param_groups[0]["lr"] == 0.4
    train(other, 1, 1)
    other.schedule.step()
    assert other.optimizer.param_groups[0]["lr"] == 0.2


def test_a_first_state_without_steps_loads():
    torch.manual_seed(3)
    trainee = fresh("Adam(lr=0.01)")
    other = hopped(trainee, "Adam(lr=0.01)")
    assert other.dump() == trainee.dump()


def test_weights_are_plain_safetensors_with_the_module_s_names():
    trainee = fresh("SGD(lr=0.1)")
    blob = trainee.dump().weights
    (length,) = struct.unpack_from("<Q", blob)
    header = json.loads(blob[8 : 8 + length])
    assert header["0.weight"] == {"dtype": "F32", "shape": [8, 6], "data_offsets": header["0.weight"]["data_offsets"]}
    assert set(header) - {"__metadata__"} == set(trainee.module.state_dict())


def test_chunks_put_together_are_the_blobs(monkeypatch):
    assert CHUNK_BYTES < 2**30
    monkeypatch.setattr("cerebro_db.state.CHUNK_BYTES", 100)
    blobs = fresh("SGD(lr=0.1)").dump()
    parts = {"weights": b"", "rest": b""}
    for part, number, data in blobs.chunks():
        assert len(data) <= 100
        assert number == len(parts[part]) // 100
        parts[part] += data
    assert parts == {"weights": blobs.weights, "rest": blobs.rest}
    assert blobs.size == len(blobs.weights) + len(blobs.rest)


def test_weights_of_another_shape_are_refused():
    blobs = fresh("SGD(lr=0.1)").dump()
    other = nn.Sequential(nn.Linear(6, 9))
    from cerebro_db.state import load_weights

    with pytest.raises(RuntimeError, match="size mismatch|Unexpected key"):
        load_weights(other, blobs.weights)
