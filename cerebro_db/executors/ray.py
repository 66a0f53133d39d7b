"""Workers as actors of Ray, on the cluster that RAY_ADDRESS names, else on one of this machine for the run.

A message is passed as JSON text, as between other processes. A dead actor is noticed when it has
something to do, or is told something.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import re
import socket
import time
from contextlib import contextmanager
from typing import Any, Dict, Hashable, Iterator, List

from cerebro_db.environment import child_environment, is_embedded
from cerebro_db.errors import SetupError, line_of
from cerebro_db.executors.base import Answer, Loss, Message, News

#: The module of the class that an actor wraps; known by name only, since it stands above this one.
_WORK = "cerebro_db.worker.work"
#: How long a cluster's address may take to answer.
CONNECT_SECONDS = 10.0


class RayExecutor:
    """One actor per segment. Used from one thread."""

    def __init__(self, owner: Hashable = None) -> None:
        self._ray = _ray()
        #: Whether the connection to Ray is ours to end; a program may have one already.
        self._own = not self._ray.is_initialized()
        if self._own:
            _connect(self._ray)
        self._actors: Dict[int, Any] = {}
        #: Answers that are due, the oldest first: reference -> segment.
        self._due: Dict[Any, int] = {}

    def pid(self, segment: int) -> int:
        """Process of a segment's actor, on whatever host that is."""
        return int(self._ray.get(self._actors[segment].pid.remote()))

    def start(self, segment: int) -> None:
        self._forget(segment)
        remote = self._ray.remote(max_restarts=0, scheduling_strategy="SPREAD")(Actor)
        self._actors[segment] = remote.remote()

    def send(self, segment: int, message: Message) -> None:
        if segment in self._actors:  # one that is gone has been reported
            self._due[self._actors[segment].answer.remote(json.dumps(message))] = segment

    def wait(self, seconds: float) -> List[News]:
        news: List[News] = []
        due = list(self._due)
        if not due:
            time.sleep(seconds)
            return news
        if not self._ray.wait(due, num_returns=1, timeout=seconds)[0]:
            return news
        for reference in self._ray.wait(due, num_returns=len(due), timeout=0)[0]:
            if reference in self._due:  # not one of an actor that was lost just now
                news.append(self._told(reference))
        return news

    def rest(self, seconds: float) -> None:
        """Actors are the cluster's, which others use: none is kept."""
        self.close()

    def close(self) -> None:
        for segment in list(self._actors):
            self._forget(segment)
        if self._own:
            self._own = False
            self._ray.shutdown()

    def _told(self, reference: Any) -> News:
        segment = self._due.pop(reference)
        try:
            return Answer(segment, json.loads(self._ray.get(reference)))
        except self._ray.exceptions.RayError as error:
            self._forget(segment)
            return Loss(segment, f"worker of segment {segment} (an actor of Ray) died: {line_of(error)}")

    def _forget(self, segment: int) -> None:
        self._due = {reference: owner for reference, owner in self._due.items() if owner != segment}
        actor = self._actors.pop(segment, None)
        if actor is not None:
            self._ray.kill(actor, no_restart=True)


class Actor:
    """What runs in Ray's process: a worker, and JSON around it."""

    def __init__(self) -> None:
        self._worker = importlib.import_module(_WORK).Worker()

    def pid(self) -> int:
        return os.getpid()

    def answer(self, text: str) -> str:
        return json.dumps(self._worker.answer(json.loads(text)))


def _ray() -> Any:
    """The package, imported only when somebody asks for it. Raises SetupError with the remedy."""
    if is_embedded():
        raise SetupError(
            "executor 'ray' takes over the signals of its process, which a database backend cannot give away: "
            "start the run from Python or the command line, or take executor 'local'"
        )
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise SetupError(
            f"executor 'ray' needs the package ray ({error}): pip install 'cerebro-db[ray]', or take executor 'local'"
        ) from error


def _connect(ray: Any) -> None:
    address = os.environ.get("RAY_ADDRESS") or "local"
    failures = (ConnectionError, RuntimeError, ValueError, OSError, ray.exceptions.RayError)
    with _environment(child_environment()):  # Ray's processes of this machine inherit it
        try:
            _require_listener(address)
            ray.init(
                address=address,
                log_to_driver=False,
                logging_level=logging.ERROR,
                include_dashboard=False if address == "local" else None,
            )
        except failures as error:
            raise SetupError(
                f"cannot reach Ray at {address!r}: {line_of(error)}; start it by 'ray start --head', or unset "
                "RAY_ADDRESS for one of this machine"
            ) from error


def _require_listener(address: str) -> None:
    """Fail soon when nobody is there; Ray itself would wait for minutes."""
    found = re.fullmatch(r"(?:ray://)?([^/]+):(\d+)", address)
    if found:
        socket.create_connection((found.group(1), int(found.group(2))), CONNECT_SECONDS).close()


@contextmanager
def _environment(wanted: Dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(wanted)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
