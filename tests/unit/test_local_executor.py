"""Worker processes without a database: what they answer, how they end, and that nothing is left of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Iterator, List

import pytest

from cerebro_db import environment
from cerebro_db.errors import SetupError, UsageError
from cerebro_db.executors.base import Answer, Loss, News
from cerebro_db.executors.local import SHELF, LocalExecutor, _key, local_ahead
from cerebro_db.executors.registry import open_executor
from tests.support import wait_until

#: Runs at the start of every process below: a worker without torch that does what a message says.
CUSTOM = """
import os, subprocess, sys, threading, types

class Worker:
    def answer(self, message):
        act = message["do"]
        if act == "print":
            print("from Python")
            os.write(1, b"from C, without an end of line")
            os.system("echo from a child")
        elif act == "hang":
            threading.Event().wait()
        elif act == "child":
            return {"answer": act, "pid": subprocess.Popen(["sleep", "600"]).pid}
        elif act == "rest":
            return {"answer": "resting", "patience": message["seconds"]}
        elif act == "wake":
            return {"answer": "awake"}
        elif act == "exit":
            os.write(2, b"first line\\nlast words\\n\\n")
            os._exit(3)
        return {"answer": act, "stdin": sys.stdin.read()}

module = types.ModuleType("cerebro_db.worker.work")
module.Worker = Worker
sys.modules[module.__name__] = module
if "-m" in sys.orig_argv:
    print("chatter at the start", end="")
"""


@pytest.fixture
def executor() -> Iterator[LocalExecutor]:
    made = LocalExecutor()
    yield made
    made.close()


@pytest.fixture
def custom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder at the front of the workers' path, with code that they run at their start."""
    (tmp_path / "sitecustomize.py").write_text(CUSTOM, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def news(executor: LocalExecutor, count: int, seconds: float = 60) -> List[News]:
    """What comes, until there are that many."""
    found: List[News] = []

    def enough() -> bool:
        found.extend(executor.wait(0.1))
        return len(found) >= count

    wait_until(enough, seconds, f"{count} news come, there are {found}")
    return found


def said(executor: LocalExecutor) -> Any:
    """The one answer that comes."""
    (item,) = news(executor, 1)
    assert isinstance(item, Answer), item
    return item.message


def is_gone(pid: int) -> bool:
    """Whether there is no such process, or one that only waits to be collected by others than us."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text("utf-8").rsplit(")", 1)[1].split()
    except OSError:
        return True
    return state[0] == "Z" and int(state[1]) != os.getpid()


def test_a_message_that_no_worker_knows(executor: LocalExecutor) -> None:
    executor.start(3)
    executor.send(3, {"do": "hopp"})
    assert news(executor, 1) == [
        Answer(
            3,
            {
                "answer": "failed",
                "message": "unknown message to a worker 'hopp': did you mean 'hop'? known are check, hop, open, rest, "
                "start, wake",
                "sqlstate": UsageError.sqlstate,
            },
        )
    ]


def test_messages_out_of_turn_or_with_wrong_fields_leave_the_worker_alive(executor: LocalExecutor) -> None:
    executor.start(0)
    for message, expected in (
        ({"do": "hop", "mst_keys": [1], "epoch": 1, "last": True}, "expected the message 'open' before 'hop'"),
        ({"do": "open", "run_id": 1, "segment_id": 0}, "expected the message 'start' first"),
        ({"do": "hop"}, "missing 3 required positional arguments"),
        ({"do": "start", "strategy": "in_rdbms", "parameters": {}, "setup": ""}, "'in_rdbms' has no worker processes"),
    ):
        executor.send(0, message)
        answer = said(executor)
        assert (answer["answer"], expected in answer["message"]) == ("failed", True), answer


def test_a_server_that_lets_no_worker_in(executor: LocalExecutor, tmp_path: Path) -> None:
    executor.start(0)
    parameters = {"host": str(tmp_path), "port": 5432, "password": "sesame"}
    executor.send(0, {"do": "start", "strategy": "streaming", "parameters": parameters, "setup": ""})
    answer = said(executor)
    assert answer["sqlstate"] == SetupError.sqlstate
    assert answer["message"].startswith("a worker process cannot open its session: connection to server on socket")
    assert "sesame" not in str(answer)


def test_what_is_printed_is_no_answer(executor: LocalExecutor, custom: Path) -> None:
    executor.start(0)
    for _ in range(2):
        executor.send(0, {"do": "print"})
        assert said(executor) == {"answer": "print", "stdin": ""}


def test_large_messages_are_sent_while_a_worker_still_starts(executor: LocalExecutor, custom: Path) -> None:
    executor.start(0)
    started = time.monotonic()
    for _ in range(3):
        executor.send(0, {"do": "x" * 1_000_000})
    assert time.monotonic() - started < 1
    assert news(executor, 3) == [Answer(0, {"answer": "x" * 1_000_000, "stdin": ""})] * 3


def test_a_killed_worker_is_noticed_and_replaced(executor: LocalExecutor, custom: Path) -> None:
    executor.start(1)
    executor.start(2)
    for segment in (1, 2):
        executor.send(segment, {"do": "nothing"})
    news(executor, 2)
    pid = executor.pids[1]
    os.kill(pid, signal.SIGKILL)
    started = time.monotonic()
    expected = f"worker of segment 1 (pid {pid}) ended by signal 9, as when memory runs out"
    assert news(executor, 1) == [Loss(1, expected)]
    assert time.monotonic() - started < 1
    assert set(executor.pids) == {2}
    assert not Path(f"/proc/{pid}").exists()
    executor.send(1, {"do": "nothing"})  # to nobody
    assert executor.wait(0) == []
    executor.start(1)
    executor.send(1, {"do": "nothing"})
    (item,) = news(executor, 1)
    assert item.segment == 1


def test_last_words_are_in_the_reason(executor: LocalExecutor, custom: Path) -> None:
    executor.start(7)
    pid = executor.pids[7]
    executor.send(7, {"do": "exit"})
    assert news(executor, 1) == [Loss(7, f"worker of segment 7 (pid {pid}) ended with exit code 3: last words")]


def test_an_interpreter_without_torch_says_so(executor: LocalExecutor, custom: Path) -> None:
    (custom / "sitecustomize.py").unlink()
    (custom / "torch.py").write_text("raise ImportError('no torch for you')", "utf-8")
    executor.start(0)
    executor.send(0, {"do": "nothing"})
    answer = said(executor)
    assert answer["sqlstate"] == SetupError.sqlstate
    assert answer["message"].startswith(f"no torch for you in the worker's interpreter {sys.executable}; install")


def test_closing_leaves_no_process_no_child_of_one_and_no_pipe(custom: Path) -> None:
    before = sorted(os.listdir("/proc/self/fd"))
    executor = LocalExecutor()
    for segment in range(2):
        executor.start(segment)
        executor.send(segment, {"do": "child"})
    children = [item.message["pid"] for item in news(executor, 2) if isinstance(item, Answer)]
    executor.send(0, {"do": "hang"})
    pids = list(executor.pids.values())
    executor.close()
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []
    wait_until(lambda: all(is_gone(pid) for pid in children), 5, "the children of workers are gone")
    assert sorted(os.listdir("/proc/self/fd")) == before
    executor.close()
    assert executor.wait(0) == []


def test_a_worker_that_rests_is_its_owners_until_it_is_late(custom: Path) -> None:
    first = started("me")
    pid = first.pids[0]
    first.rest(60)
    other = started("you")
    assert other.pids[0] != pid
    second = started("me")
    assert second.pids == {0: pid}
    second.send(0, {"do": "nothing"})
    assert said(second) == {"answer": "nothing", "stdin": ""}
    second.rest(0.2)
    wait_until(lambda: ended(pid), 10, "it has ended by itself")
    third = started("me")
    assert third.pids[0] != pid
    assert not Path(f"/proc/{pid}").exists()  # and is collected now
    for executor in (other, third):
        executor.rest(0)
        assert executor.pids == {}
    assert SHELF.count == 0


def test_workers_start_ahead_and_end_unless_they_are_taken(custom: Path) -> None:
    with local_ahead("me", 2):
        ahead = sorted(child.pid for child in SHELF.of(_key("me")))
        executor = started("me")
        assert executor.pids[0] in ahead
    assert SHELF.count == 0
    left = [pid for pid in ahead if not ended(pid)]
    assert left == [executor.pids[0]]
    executor.rest(60)
    with pytest.raises(UsageError), local_ahead("me", 1):
        raise UsageError("refused")
    assert [child.pid for child in SHELF.of(_key("me"))] == left  # a refused call may come again
    with pytest.raises(SetupError), local_ahead("me", 1):
        raise SetupError("failed")
    assert SHELF.count == 0
    assert ended(left[0])


def started(owner: str) -> LocalExecutor:
    executor = LocalExecutor(owner)
    executor.start(0)
    return executor


def ended(pid: int) -> bool:
    """Whether a process is gone, or waits to be collected."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def test_a_worker_blocks_no_signal_and_is_of_a_session_of_its_own(executor: LocalExecutor, custom: Path) -> None:
    executor.start(0)
    executor.send(0, {"do": "nothing"})
    said(executor)
    pid = executor.pids[0]
    status = dict(
        line.split(":\t") for line in Path(f"/proc/{pid}/status").read_text("utf-8").splitlines() if ":\t" in line
    )
    assert int(status["SigBlk"], 16) == 0
    known = sum(1 << (number - 1) for number in signal.valid_signals())  # the C library keeps some for itself
    assert int(status["SigIgn"], 16) & known == 1 << (signal.SIGPIPE - 1)
    assert int(status["SigCgt"], 16) & (1 << (signal.SIGINT - 1)) == 0
    assert os.getsid(pid) == pid != os.getsid(0)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()


PARENT = """
import sys
from cerebro_db.executors.local import LocalExecutor
executor = LocalExecutor()
executor.start(0)
executor.send(0, {"do": "hang"})
sys.stdout.write(f"{executor.pids[0]}\\n")
sys.stdout.flush()
while True:
    executor.wait(1)
"""


def test_a_killed_parent_takes_its_workers_along_whatever_they_do(custom: Path) -> None:
    command = [sys.executable, "-c", PARENT]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment.child_environment())
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert not is_gone(pid)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_until(lambda: is_gone(pid), 5, "the worker has ended")


COMMANDS = [[sys.executable, "-m", "cerebro_db.worker"], [sys.executable, "-m", "cerebro_db.cli", "worker"]]


@pytest.mark.parametrize("command", COMMANDS, ids=["module", "cli"])
def test_serving_by_hand(command: List[str]) -> None:
    """One line is answered; the process ends when its stdin does, and not before."""
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment.child_environment(), bufsize=0
    )
    assert process.stdin is not None
    assert process.stdout is not None
    for line, expected in ((b"garbage\n", "is not JSON"), (b"[1]\n", "is not an object"), (b"{}\n", "None")):
        process.stdin.write(line)
        assert process.stdout.readline() == b"\n"
        answer = json.loads(process.stdout.readline())
        assert (answer["answer"], expected in answer["message"]) == ("failed", True), answer
    process.stdin.close()
    assert process.wait(10) == 0
    assert process.stdout.read() == b""
    process.stdout.close()


def test_the_interpreter_of_a_program_that_is_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, executor: LocalExecutor
) -> None:
    """As inside a database backend, where sys.executable is whatever the PATH has first."""
    monkeypatch.setattr(sys, "executable", "/usr/bin/env")
    assert environment.is_embedded()
    assert Path(environment.child_interpreter()).name == f"python{environment.interpreter()}"
    monkeypatch.setattr(sys, "base_exec_prefix", str(tmp_path))
    monkeypatch.setattr(environment.sysconfig, "get_config_var", lambda name: None)
    with pytest.raises(SetupError, match=rf"no interpreter python3\.\d+ in {tmp_path}/bin, which worker processes"):
        executor.start(0)
    assert executor.pids == {}
    with pytest.raises(SetupError, match="executor 'ray' takes over the signals of its process"):
        open_executor("ray")


def test_executors_are_a_closed_list() -> None:
    with pytest.raises(UsageError, match="unknown executor 'rey': did you mean 'ray'"):
        open_executor("rey")


def test_ray_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)  # type: ignore[arg-type]
    with pytest.raises(SetupError, match=r"needs the package ray .*: pip install 'cerebro-db\[ray\]'"):
        open_executor("ray")
