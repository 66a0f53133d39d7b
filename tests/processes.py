"""Worker processes of a run, found in /proc as an administrator would find them."""

from __future__ import annotations

from pathlib import Path
from typing import List

from tests.support import wait_until

_COMMAND = b"-m\0cerebro_db.worker\0"


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
