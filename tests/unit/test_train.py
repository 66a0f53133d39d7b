"""The training loop against a loop written by hand, and what it counts."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from cerebro_db.learners import Alone, Module, Objective
from cerebro_db.state import Trainee
from cerebro_db.train import evaluate, train_hop


def nothing() -> None:
    pass


def data(batches: int = 5, rows: int = 8):
    generator = torch.Generator().manual_seed(2)
    return [
        ((torch.randn(rows, 4, generator=generator),), torch.randint(0, 3, (rows,), generator=generator))
        for _ in range(batches)
    ]


def trainee(lr: float = 0.1) -> Trainee:
    torch.manual_seed(1)
    module = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 3))
    return Trainee(module, torch.optim.SGD(module.parameters(), lr=lr, momentum=0.9))


def correct(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return (output.argmax(1) == target).sum()


GOAL = Objective(nn.functional.cross_entropy, correct)


def test_equals_a_loop_by_hand_bit_for_bit():
    ours, theirs = trainee(), trainee()
    torch.manual_seed(4)
    tally = train_hop(Alone(ours, GOAL), data(), nothing)[0]
    torch.manual_seed(4)
    losses, hits = 0.0, 0
    theirs.module.train()
    for (x,), y in data():
        theirs.optimizer.zero_grad()
        output = theirs.module(x)
        loss = nn.functional.cross_entropy(output, y)
        loss.backward()
        theirs.optimizer.step()
        losses += loss.item() * len(y)
        hits += int((output.argmax(1) == y).sum())
    for name, tensor in theirs.module.state_dict().items():
        assert torch.equal(ours.module.state_dict()[name], tensor), name
    assert (tally.rows, tally.loss, tally.metric) == (40, losses / 40, hits / 40)
    assert (ours.steps, ours.rows) == (5, 40)


def test_gradients_are_clipped_to_the_norm():
    clipped = trainee(lr=1.0)
    before = [parameter.detach().clone() for parameter in clipped.module.parameters()]
    train_hop(Alone(clipped, Objective(nn.functional.cross_entropy, clip_norm=1e-3)), data(batches=1), nothing)
    moved = torch.cat([(a - b).flatten() for a, b in zip(clipped.module.parameters(), before)]).norm().item()
    assert moved == pytest.approx(1e-3, rel=1e-3)


def test_a_loss_that_is_no_number_ends_the_hop():
    config = trainee(lr=1e38)
    tally = train_hop(Alone(config, GOAL), data(batches=20), nothing)[0]
    assert tally.diverged
    assert tally.rows < 160


def test_evaluation_changes_nothing_and_puts_the_mode_back():
    config = trainee()
    config.module.train()
    before = config.dump()
    tally = evaluate(Module(config.module, GOAL), data(), nothing)[0]
    assert config.dump() == before
    assert config.module.training
    config.module.train(False)
    with torch.no_grad():
        hits = sum(int((config.module(x).argmax(1) == y).sum()) for (x,), y in data())
    assert (tally.rows, tally.metric) == (40, hits / 40)


def test_an_interrupt_between_batches_ends_the_hop():
    calls = []

    def check() -> None:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt

    config = trainee()
    with pytest.raises(KeyboardInterrupt):
        train_hop(Alone(config, GOAL), data(), check)
    assert config.steps == 2


def test_no_rows_give_no_numbers():
    tally = train_hop(Alone(trainee(), GOAL), [], nothing)[0]
    assert (tally.rows, tally.loss, tally.metric, tally.diverged) == (0, None, None, False)


def test_waiting_for_rows_is_counted_as_data(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("cerebro_db.train.time.perf_counter", lambda: now[0])

    def slow():
        for item in data(batches=3):
            now[0] += 2.0
            yield item

    tally = evaluate(Module(trainee().module, GOAL), slow(), nothing)[0]
    assert (tally.data_seconds, tally.seconds) == (6.0, 6.0)
