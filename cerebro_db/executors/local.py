"""Workers as processes of this machine: children that end with their parent, whatever ends it.

They are started from scratch and not forked: a parent may have threads, locks and sockets of a server.
A child's stdin is its life line, see `worker.serve`.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections import deque
from contextlib import contextmanager, suppress
from typing import IO, Any, Deque, Dict, Hashable, Iterator, List, Optional, Tuple

from cerebro_db.environment import child_environment, child_interpreter
from cerebro_db.errors import SetupError, UsageError
from cerebro_db.executors.base import Answer, Loss, Message, News
from cerebro_db.kept import Shelf

#: The module that a child runs; known by name only, since it stands above this one.
_MODULE = "cerebro_db.worker"
#: What a read takes at most [bytes].
_READ_BYTES = 1 << 16
#: Of what a worker wrote to stderr, so much is kept to say why it died [bytes].
_KEPT_BYTES = 4096
#: How long a worker may take to let go of a run [s]; one that takes longer is ended.
_REST_SECONDS = 5.0
#: How long a kept worker may take to answer [s].
_WAKE_SECONDS = 2.0


class LocalExecutor:
    """One child process per segment. Used from one thread."""

    def __init__(self, owner: Hashable = None) -> None:
        self._owner = owner
        self._children: Dict[int, _Child] = {}

    @property
    def pids(self) -> Dict[int, int]:
        """Process of each segment's worker."""
        return {segment: child.pid for segment, child in self._children.items()}

    def start(self, segment: int) -> None:
        self._end(segment)
        child = SHELF.take(_key(self._owner)) or _Child()
        child.segment = segment
        self._children[segment] = child

    def send(self, segment: int, message: Message) -> None:
        child = self._children.get(segment)
        if child is not None:  # one that is gone has been reported, or will be by `wait`
            child.send(message)

    def wait(self, seconds: float) -> List[News]:
        _wait_for(list(self._children.values()), seconds)
        news: List[News] = []
        for segment, child in list(self._children.items()):
            news.extend(child.advance())
            if child.lost is not None:
                news.append(Loss(segment, child.lost))
                self._end(segment)
        return news

    def rest(self, seconds: float) -> None:
        """Keep workers for their owner's next call, without rows, modules and sessions; they end when it is late."""
        children, self._children = self._children, {}
        if seconds <= 0:
            self._children = children
            self.close()
            return
        for child in children.values():
            child.send({"do": "rest", "seconds": seconds})
        until = time.monotonic() + _REST_SECONDS
        for child in children.values():
            child.was_kept = child.says("resting", until)
            if child.was_kept:
                SHELF.put(_key(self._owner), child, seconds)
            else:
                child.close()

    def close(self) -> None:
        children, self._children = list(self._children.values()), {}
        for child in children:  # all at once, then wait for each
            child.kill()
        for child in children:
            child.close()

    def _end(self, segment: int) -> None:
        child = self._children.pop(segment, None)
        if child is not None:
            child.close()


class _Child:
    """A worker's process and its three pipes, none of which is ever waited for."""

    def __init__(self) -> None:
        self.segment = 0
        #: Whether an earlier call has used it.
        self.was_kept = False
        #: Why it is gone; None while it lives.
        self.lost: Optional[str] = None
        self._process = _spawned()
        self.stdin, self.stdout, self.stderr = (_pipe(self._process, name) for name in ("stdin", "stdout", "stderr"))
        self._unsent = bytearray()
        self._said = bytearray()
        self._errors: Deque[int] = deque(maxlen=_KEPT_BYTES)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def waits_to_write(self) -> bool:
        return bool(self._unsent)

    def send(self, message: Message) -> None:
        self._unsent += json.dumps(message).encode() + b"\n"
        self._write()

    def advance(self) -> List[Answer]:
        """Write and read what can be without waiting; `lost` is set when the process has ended."""
        ended = _has_ended(self._process)  # first: what it said before is in the pipes by now
        self._write()
        self._errors.extend(_available(self.stderr) or b"")
        said = _available(self.stdout)
        self._said += said or b""
        answers = self._answers()
        if ended or said is None:
            self.lost = self._obituary()
        return answers

    def kill(self) -> None:
        """Send SIGKILL to the process and whatever it has started."""
        if self._process.returncode is None:  # not waited for yet, so its number is still its own
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def awake(self) -> bool:
        """Whether a worker that was kept answers."""
        self.send({"do": "wake"})
        return self.says("awake", time.monotonic() + _WAKE_SECONDS)

    def says(self, answer: str, until: float) -> bool:
        """Whether its next answer is this one, at the latest at `until`, by time.monotonic()."""
        while True:
            answers = self.advance()
            if answers or self.lost is not None or time.monotonic() >= until:
                return [said.message["answer"] for said in answers] == [answer]
            _wait_for([self], max(0.0, until - time.monotonic()))

    def close(self) -> None:
        """Kill it, wait until it is gone, close the pipes."""
        self.kill()
        self._process.wait()
        for pipe in (self.stdin, self.stdout, self.stderr):
            pipe.close()

    def _write(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: os.write(self.stdin.fileno(), self._unsent[:_READ_BYTES])]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            self._unsent.clear()

    def _answers(self) -> List[Answer]:
        *lines, rest = bytes(self._said).split(b"\n")
        self._said = bytearray(rest)
        messages = map(_message_in, lines)
        return [Answer(self.segment, message) for message in messages if message is not None]

    def _obituary(self) -> str:
        self.kill()
        status = self._process.wait()
        self._errors.extend(_available(self.stderr) or b"")
        lines = bytes(self._errors).decode("utf-8", "replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        name = f"worker of segment {self.segment} (pid {self.pid})"
        if status == -signal.SIGKILL:  # what it wrote before says nothing about that
            return f"{name} ended by signal 9, as when memory runs out"
        how = f"ended by signal {-status}" if status < 0 else f"ended with exit code {status}"
        return f"{name} {how}" + (f": {last}" if last else "")


#: Idle workers of this process.
SHELF: Shelf[_Child] = Shelf()


def _key(owner: Hashable) -> Tuple[Hashable, ...]:
    """Whose a worker is, and what it was started with."""
    return owner, child_interpreter(), tuple(sorted(child_environment().items()))


@contextmanager
def local_ahead(owner: Hashable, count: int) -> Iterator[None]:
    """Inside, so many workers are kept or start up; those that start now end with the block unless they are in use.

    After an error that is no refusal, this owner keeps none.
    """
    key = _key(owner)
    begun = [_Child() for _ in range(count - len(SHELF.of(key)))]
    for child in begun:
        SHELF.put(key, child, float("inf"))
    try:
        yield
    except UsageError:
        raise
    except BaseException:
        SHELF.drop(key)
        raise
    finally:
        for child in SHELF.of(key):
            if child in begun and not child.was_kept:
                SHELF.remove(child)


def _spawned() -> subprocess.Popen[bytes]:
    """A child in a session of its own, so that no signal to the parent's group reaches it.

    All signals are blocked meanwhile: between fork and exec a child has its parent's handlers.
    The child opens its mask itself.
    """
    command = [child_interpreter(), "-m", _MODULE]
    pipe = subprocess.PIPE
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        return subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, cwd="/", env=child_environment(),
            close_fds=True, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise SetupError(
            f"cannot start a worker process by {command[0]}: {error}; a run takes a process per segment"
        ) from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _pipe(process: subprocess.Popen[bytes], name: str) -> IO[Any]:
    pipe: IO[Any] = getattr(process, name)
    os.set_blocking(pipe.fileno(), False)
    return pipe


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether the process is over; it stays to be waited for, so that its number is not given away."""
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # somebody in this program waits for any child
        return True


def _available(pipe: IO[Any]) -> Optional[bytes]:
    """What can be read at once, b"" when nothing waits; None at the end."""
    read = bytearray()
    try:
        while True:
            piece = os.read(pipe.fileno(), _READ_BYTES)
            if not piece:
                return bytes(read) or None
            read += piece
    except BlockingIOError:
        return bytes(read)


def _message_in(line: bytes) -> Optional[Message]:
    """The answer in a line; None for what was printed before the worker had its pipes to itself."""
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) and "answer" in message else None


def _wait_for(children: List[_Child], seconds: float) -> None:
    """Until a pipe can be read, or written to where something waits, at most so long."""
    poller = select.poll()
    for child in children:
        poller.register(child.stdout, select.POLLIN)
        if child.waits_to_write:
            poller.register(child.stdin, select.POLLOUT)
    poller.poll(seconds * 1000)
