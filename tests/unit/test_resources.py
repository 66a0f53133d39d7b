"""What is measured of processes: children that end, those without a parent, bytes that are written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Dict

import pytest

from experiments import resources
from experiments.resources import Meter, Process, Tree, age, processes

MEGABYTE = 1 << 20
#: Writes so many MB into a file of the disk, then uses the processor for a while.
CHILD = """
import os, sys
with open(sys.argv[1], "wb") as file:
    file.write(os.urandom(3 << 20))
    file.flush()
    os.fsync(file.fileno())
started = os.times().user
while os.times().user - started < 0.3:
    pass
"""


def process(parent: int, ticks: int = 0, written: int = 0, reaped: int = 0, started: int = 1) -> Process:
    return Process(parent, started, ticks, reaped, rss=MEGABYTE, written=written, read=0)


def test_a_childs_bytes_and_seconds_count(tmp_path: Path) -> None:
    folder = tmp_path if os.stat(tmp_path).st_dev == os.stat("/var/tmp").st_dev else Path("/var/tmp")
    file = folder / f"written-{os.getpid()}"
    try:
        with Meter() as meter:
            subprocess.run([sys.executable, "-c", CHILD, str(file)], check=True)
    finally:
        file.unlink(missing_ok=True)
    used = meter.resources
    assert 3 * MEGABYTE <= used.written_bytes < 4 * MEGABYTE
    assert 0.3 <= used.cpu_seconds < used.seconds + 1
    assert used.peak_rss_bytes > used.peak_pss_bytes > MEGABYTE


def test_what_happened_before_does_not_count() -> None:
    with Meter() as meter:
        pass
    assert meter.resources.written_bytes == 0
    assert meter.resources.cpu_seconds < 0.2


def looks(monkeypatch: pytest.MonkeyPatch, *seen: Dict[int, Process]) -> Tree:
    """A tree with root 1 that sees these in turn."""
    waiting = list(seen)
    monkeypatch.setattr(resources, "processes", lambda *_: waiting.pop(0))
    tree = Tree([1])
    while waiting:
        tree.look()
    return tree


def test_an_ended_child_goes_on_in_a_parent_that_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = looks(
        monkeypatch,
        {1: process(0, ticks=5, written=100), 2: process(1)},
        {1: process(0, ticks=5, written=100), 2: process(1, ticks=7, written=30)},
        {1: process(0, ticks=6, reaped=8, written=132)},
    )
    assert tree.count("ticks") == 9
    assert tree.count("written") == 32
    assert tree.peak_rss == 2 * MEGABYTE


def test_an_ended_child_is_not_lost_when_nobody_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = looks(
        monkeypatch,
        {1: process(0, ticks=5), 2: process(1), 3: process(2)},
        {1: process(0, ticks=5), 2: process(1, ticks=7), 3: process(2, ticks=4, written=9)},
        {1: process(0, ticks=6)},
    )
    assert tree.count("ticks") == 1 + 7 + 4
    assert tree.count("written") == 9


def test_another_process_of_the_same_number_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = looks(
        monkeypatch,
        {1: process(0), 2: process(1, ticks=50)},
        {1: process(0), 2: process(1, ticks=3, started=9)},
    )
    assert tree.count("ticks") == 3


def test_this_process_and_its_children_are_found() -> None:
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    try:
        found = processes([os.getpid()])
        assert found[child.pid].parent == os.getpid()
        assert os.getpid() in found
    finally:
        child.communicate()
    assert child.pid not in processes([os.getpid()])
    assert age() > 0


def test_a_number_that_another_process_has_now_is_left_out() -> None:
    assert processes([os.getpid()], {os.getpid(): -1}) == {}
