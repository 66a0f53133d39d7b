"""What is kept for the next call: for its owner only, while it lasts, in the process that kept it."""

from __future__ import annotations

import os

import pytest

from cerebro_db.errors import UsageError
from cerebro_db.kept import Shelf
from cerebro_db.options import Options


class Thing:
    """Something that can be woken as often as it says."""

    def __init__(self, works: bool = True) -> None:
        self.works = works
        self.closed = False

    def awake(self) -> bool:
        return self.works

    def close(self) -> None:
        self.closed = True


def test_an_owner_gets_what_works_once() -> None:
    shelf: Shelf[Thing] = Shelf()
    broken, mine, other = Thing(works=False), Thing(), Thing()
    for owner, thing in (("me", broken), ("me", mine), ("you", other)):
        shelf.put(owner, thing, 60)
    assert shelf.of("me") == [broken, mine]
    assert shelf.take("me") is mine
    assert broken.closed
    assert shelf.take("me") is None
    assert (shelf.count, other.closed) == (1, False)


def test_what_is_late_is_closed_and_not_given() -> None:
    shelf: Shelf[Thing] = Shelf()
    late = Thing()
    shelf.put("me", late, -1)
    assert shelf.take("me") is None
    assert late.closed


def test_all_of_one_owner_or_of_all_others_ends() -> None:
    shelf: Shelf[Thing] = Shelf()
    things = {owner: Thing() for owner in ("a", "b", "c")}
    for owner, thing in things.items():
        shelf.put(owner, thing, 60)
    shelf.drop("a")
    assert [thing.closed for thing in things.values()] == [True, False, False]
    shelf.drop_others("c")
    assert [thing.closed for thing in things.values()] == [True, True, False]
    shelf.remove(things["c"])
    assert things["c"].closed
    assert shelf.count == 0


def test_nothing_is_kept_for_days() -> None:
    assert Options.parse(None, {"keep_seconds": "0.5"}).keep_seconds == 0.5
    with pytest.raises(UsageError, match=r"option keep_seconds is 90000.0, expected at most 86400 \(a day\)"):
        Options.parse('{"keep_seconds": 90000.0}', {})
    with pytest.raises(UsageError, match="option keep_seconds is -1.0, expected 0 or more"):
        Options.parse('{"keep_seconds": -1.0}', {})


def test_a_child_process_does_not_touch_what_its_parent_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    shelf: Shelf[Thing] = Shelf()
    thing = Thing()
    shelf.put("me", thing, 60)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert shelf.take("me") is None
    assert not thing.closed
