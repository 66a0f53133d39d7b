"""Processes that train together: a parent talks with members that it starts, in lines of JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager, suppress
from typing import Any, Callable, Dict, Iterator, List, Mapping, Sequence

from experiments.baselines.base import Job

#: What a member is started with, after the name of its module.
WORD = "member"


class Member:
    """One process; it is ready when it says so."""

    def __init__(self, module: str, job: Job, environment: Mapping[str, str]) -> None:
        command = [sys.executable, "-m", module, WORD]
        known = {**os.environ, "OMP_NUM_THREADS": str(job.threads), **environment}
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=known)
        self._write(job.to_json())

    def tell(self, **message: Any) -> None:
        self._write(json.dumps(message))

    def hear(self) -> Dict[str, Any]:
        """The next answer; raises RuntimeError when the member has ended instead."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a training process ended with status {self._process.wait()}; its stderr says why")
        return dict(json.loads(line))

    def ask(self, **message: Any) -> Dict[str, Any]:
        self.tell(**message)
        return self.hear()

    def end(self) -> None:
        """Let it finish what it does, and wait for it."""
        with suppress(BrokenPipeError):
            self._process.communicate()

    def kill(self) -> None:
        self._process.kill()

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()


@contextmanager
def team(module: str, job: Job, environments: Sequence[Mapping[str, str]]) -> Iterator[List[Member]]:
    """A member per environment, all of them ready."""
    members = [Member(module, job, each) for each in environments]
    try:
        for member in members:
            member.hear()
        yield members
    except BaseException:
        # One that waits for another that is gone would wait on.
        for member in members:
            member.kill()
        raise
    finally:
        for member in members:
            member.end()


def serve(start: Callable[[Job], Callable[[Dict[str, Any]], Mapping[str, Any]]]) -> int:
    """A member's side: `start` prepares for a job and gives what answers messages."""
    handle = start(Job.from_json(sys.stdin.readline()))
    answer({"ready": True})
    for line in sys.stdin:
        answer(handle(json.loads(line)))
    return 0


def answer(message: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def is_member(words: List[str]) -> bool:
    return words[1:2] == [WORD]


def variable(name: str) -> str:
    """An environment variable that the parent has set."""
    found = os.environ.get(name)
    if found is None:
        raise RuntimeError(f"variable {name} is not set; start the baseline without '{WORD}'")
    return found
