"""What a segment's worker keeps between the visits of a config."""

from __future__ import annotations

import torch
from torch import nn

from cerebro_db.state import Trainee
from cerebro_db.trainer import Built, Member


def member() -> Member:
    module = nn.Linear(2, 1)
    return Member(Trainee(module, torch.optim.Adam(module.parameters())), torch.get_rng_state())


def test_what_is_kept_is_taken_once() -> None:
    built, kept = Built(100), member()
    assert built.keep(7, kept, 60)
    assert built.take(7) is kept
    assert built.take(7) is None


def test_what_has_no_room_is_not_kept_until_there_is_room_again() -> None:
    built, first, second = Built(100), member(), member()
    assert built.keep(1, first, 60)
    assert not built.keep(2, second, 60)
    assert built.take(2) is None
    assert built.take(1) is first
    built.keep(2, second, 60)
    assert built.take(2) is second
