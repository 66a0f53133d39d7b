"""What the experiments ran on."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any, Dict, Optional

from cerebro_db.client import connect
from cerebro_db.environment import memory_bytes
from cerebro_db.sqltext import Fragment

PACKAGES = ("torch", "numpy", "pandas", "psycopg2-binary", "ray", "zstandard")
_VERSION = Fragment("select version() as version")
FILE = "machine.json"


def describe(dsn: str) -> Dict[str, Any]:
    """Cores, memory, versions and commit; None where it cannot be told."""
    with connect(dsn) as db:
        server = db.rows(_VERSION)[0]["version"]
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": _processor(),
        "memory_gb": round(memory_bytes() / 1e9, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "server": server.split(" on ")[0].split(" (")[0],
        "packages": {name: _version(name) for name in PACKAGES},
        "commit": commit(),
    }


def write(folder: Path, facts: Dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE).write_text(json.dumps(facts, indent=2) + "\n", "utf-8")


def read(folder: Path) -> Dict[str, Any]:
    """What was written; nothing where it was not."""
    path = folder / FILE
    return dict(json.loads(path.read_text("utf-8"))) if path.exists() else {}


def commit() -> Optional[str]:
    """The commit of this checkout, with a plus when it was changed since; None outside of git."""
    words = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"]
    try:
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def _version(package: str) -> Optional[str]:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _processor() -> Optional[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or None
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), None)
