"""Processes: the command `cerebro-db`, and workers of a run as an administrator finds them in /proc."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, Optional, Set

from cerebro_db.client import PsycopgDatabase
from cerebro_db.engines import on_greenplum
from cerebro_db.sqltext import Fragment
from tests.support import wait_until

_COMMAND = b"-m\0cerebro_db.worker\0"


def started(dsn: str, *words: str, folder: Optional[Path] = None) -> subprocess.Popen[str]:
    """`cerebro-db <words> --dsn <dsn>` of this tree, its output in pipes."""
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, "-m", "cerebro_db.cli", *words, "--dsn", dsn], cwd=folder, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path},
        preexec_fn=_hear_ctrl_c,
    )  # fmt: skip


def _hear_ctrl_c() -> None:
    """A shell starts what it runs in the background, and so these tests, deaf to it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def threads(pid: int) -> Dict[int, Set[int]]:
    """Signals that each thread of a process blocks, by thread id."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        status = dict(line.split(":", 1) for line in (task / "status").read_text("utf-8").splitlines())
        mask = int(status["SigBlk"].strip(), 16)
        found[int(task.name)] = {bit + 1 for bit in range(64) if mask >> bit & 1}
    return found


def working(session: PsycopgDatabase) -> List[int]:
    """The processes on this host that answer to a session: its backend, and on Greenplum those of its segments."""
    pids: List[int] = [session.connection.info.backend_pid]
    if on_greenplum(session):
        number = session.rows(Fragment("select current_setting('gp_session_id') as n"))[0]["n"]
        titles = {path.parent: path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")}
        pids += [int(path.name) for path, title in titles.items() if f" con{number} seg".encode() in title]
        assert len(pids) > 1
    return pids


def works_on(database: PsycopgDatabase, number: str, text: str) -> bool:
    """Whether segments of Greenplum work on a statement of session `number` that has this text."""
    active = Fragment(
        "select count(*) as n from gp_dist_random('pg_stat_activity') where sess_id = %(number)s::integer"
        " and state = 'active' and query like '%%' || %(text)s || '%%'"
    )
    return bool(database.rows(active, number=number, text=text)[0]["n"])


def worker_pids(parent: int) -> List[int]:
    """Workers that this process has started, lowest number first."""
    found = [entry for entry in Path("/proc").iterdir() if entry.name.isdigit() and _parent(entry) == parent]
    return sorted(int(entry.name) for entry in found if _is_worker(entry))


def all_gone(pids: List[int], seconds: float = 5) -> None:
    """Fail unless these processes are gone in time."""
    wait_until(lambda: not any(_is_worker(Path(f"/proc/{pid}")) for pid in pids), seconds, f"workers {pids} are gone")


def _is_worker(process: Path) -> bool:
    try:
        return (process / "cmdline").read_bytes().endswith(_COMMAND)
    except OSError:
        return False


def _parent(process: Path) -> int:
    try:
        return int((process / "stat").read_text("utf-8").rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0
