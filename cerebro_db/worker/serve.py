"""Serve one worker: a JSON message per line of stdin, a JSON answer per line of stdout.

The process lives as long as its stdin is open, and ends at once when it closes, whatever it does then: so
it goes with its parent, also one that was killed. One that rests ends when nobody needs it in time. Secrets come
over stdin only, where nobody sees them.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import threading
from queue import Empty, SimpleQueue
from typing import Any, Dict, Optional, Tuple

from cerebro_db.errors import SetupError, UsageError

#: Light until here: what pulls in torch is imported by name, when stdin is watched and stdout is safe.
_WORK = "cerebro_db.worker.work"


def main() -> None:
    """Answer messages until stdin ends."""
    _reset_signals()
    asked, answers = _claim_pipes()
    messages: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_read, args=(asked, messages), daemon=True).start()
    try:
        worker = importlib.import_module(_WORK).Worker()
    except ImportError as error:
        worker = _Lacking(error)
    patience: Optional[float] = None
    while True:
        answer = _answer(worker, _next(messages, patience))
        patience = answer.pop("patience", None)
        _write(answers, answer)


class _Lacking:
    """Stands in for a worker that this interpreter cannot import."""

    def __init__(self, error: ImportError) -> None:
        self._message = f"{error} in the worker's interpreter {sys.executable}; install it for that one"

    def answer(self, message: Any) -> Dict[str, Any]:
        return {"answer": "failed", "message": self._message, "sqlstate": SetupError.sqlstate}


def _reset_signals() -> None:
    """Undo what a parent has blocked or ignored; a database backend does both."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE}:
        if signal.getsignal(number) is not None:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _claim_pipes() -> Tuple[int, int]:
    """Descriptors that nothing else writes to or reads from: what is printed goes to stderr, stdin is empty."""
    asked, answers = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return asked, answers


def _read(asked: int, messages: SimpleQueue[bytes]) -> None:
    """Pass lines on, and end the process with the last one: nobody waits for it any more."""
    with open(asked, "rb") as lines:
        for line in lines:
            messages.put(line)
    os._exit(0)


def _next(messages: SimpleQueue[bytes], patience: Optional[float]) -> bytes:
    """The next message; the process ends when none comes in time [s]."""
    try:
        return messages.get(timeout=patience)
    except Empty:
        os._exit(0)


def _answer(worker: Any, line: bytes) -> Dict[str, Any]:
    try:
        message = json.loads(line)
    except ValueError as error:
        return _refused(f"is not JSON: {error}")
    return dict(worker.answer(message)) if isinstance(message, dict) else _refused("is not an object")


def _refused(why: str) -> Dict[str, Any]:
    return {"answer": "failed", "message": f"a message to a worker {why}", "sqlstate": UsageError.sqlstate}


def _write(answers: int, answer: Dict[str, Any]) -> None:
    # On a line of its own, whatever was printed before the pipes were claimed.
    line = b"\n" + json.dumps(answer).encode() + b"\n"
    try:
        while line:
            line = line[os.write(answers, line) :]
    except BrokenPipeError:
        os._exit(0)
