"""Runs whose workers are actors of a Ray of this machine."""

from __future__ import annotations

import os
import signal
from functools import partial
from typing import Any, Iterator, List

import pytest

from cerebro_db import runs as engine
from cerebro_db.client import PsycopgDatabase
from cerebro_db.errors import SetupError, UsageError
from cerebro_db.executors.base import Answer, Loss, News
from cerebro_db.executors.ray import RayExecutor
from cerebro_db.loopback import Loopback
from tests import runs
from tests.support import wait_until

ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'cerebro-db[ray]'")

pytestmark = pytest.mark.slow


@pytest.fixture
def executor(monkeypatch: pytest.MonkeyPatch) -> Iterator[RayExecutor]:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    made = RayExecutor()
    yield made
    made.close()
    assert not ray.is_initialized()


def news(executor: RayExecutor, count: int) -> List[News]:
    found: List[News] = []

    def enough() -> bool:
        found.extend(executor.wait(0.1))
        return len(found) >= count

    wait_until(enough, 120, f"{count} news come, there are {found}")
    return found


def test_actors_answer_in_order_and_a_dead_one_is_a_loss(executor: RayExecutor) -> None:
    for segment in (0, 1):
        executor.start(segment)
        executor.send(segment, {"do": "hop"})
        executor.send(segment, {"do": "hopp"})
    told = news(executor, 4)
    for segment in (0, 1):
        first, second = [item.message for item in told if isinstance(item, Answer) and item.segment == segment]
        assert "missing 3 required positional arguments" in first["message"]
        assert (second["sqlstate"], "did you mean 'hop'" in second["message"]) == (UsageError.sqlstate, True)
    os.kill(executor.pid(1), signal.SIGKILL)
    executor.send(1, {"do": "hop"})
    (loss,) = news(executor, 1)
    assert isinstance(loss, Loss)
    assert loss.segment == 1
    assert loss.reason.startswith("worker of segment 1 (an actor of Ray) died: ")
    executor.send(1, {"do": "hop"})  # to nobody
    assert executor.wait(0) == []
    executor.start(1)
    executor.send(1, {"do": "hopp"})
    (again,) = news(executor, 1)
    assert isinstance(again, Answer)


def test_a_ray_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(SetupError, match=r"cannot reach Ray at '127.0.0.1:1': .*; start it by 'ray start --head'"):
        RayExecutor()


def test_a_run_on_ray_gives_the_same_bits(pg: PsycopgDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    runs.make_images(pg, "images", 60)
    runs.pack(pg, "images", "packed", 2)
    runs.make_selection(pg, "one", {1: (runs.MLP, runs.ADAM, "batch_size=8")})
    for executor in ("local", "ray"):
        options = f'{{"threads": 1, "order": "round", "executor": "{executor}"}}'
        request: Any = engine.FitRequest("packed", executor, "one", 2, strategy="streaming", options=options)
        row = engine.fit(engine.Host(pg, lambda: None, partial(Loopback, pg)), request)
        assert row["status"] == "finished"
    assert runs.weights(pg, "ray", 1) == runs.weights(pg, "local", 1)
    assert not ray.is_initialized()
    runs.no_helpers(pg)
