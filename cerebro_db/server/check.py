"""What the server's host has and lacks, one row per item, each with its remedy.

Imports nothing heavy: torch starts threads and CUDA, so versions are read from package metadata.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import sys
from dataclasses import astuple, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Callable, Iterator, List, Optional, Tuple

from cerebro_db import __version__
from cerebro_db.database import Database, one
from cerebro_db.environment import available_bytes, child_interpreter, cores, gpus, interpreter
from cerebro_db.errors import CerebroError
from cerebro_db.server.entry import sql_function
from cerebro_db.server.plpy_database import PlpyDatabase
from cerebro_db.sqltext import query

#: Below these a run is likely to fail; a training session takes about 400 MB with torch loaded [bytes].
LEAST_MEMORY = 1 << 30
LEAST_DISK = 1 << 30
#: How long the probe of a loopback session waits for a lock [s].
LOCK_SECONDS = 5.0

#: Import name and distribution names of what the server half needs.
PACKAGES = (
    ("torch", ("torch",)),
    ("numpy", ("numpy",)),
    ("safetensors", ("safetensors",)),
    ("psycopg2", ("psycopg2-binary", "psycopg2")),
)


@dataclass(frozen=True)
class Item:
    """One fact about the server; `remedy` is empty when nothing is to do."""

    item: str
    value: str
    ok: bool = True
    remedy: str = ""


Probe = Callable[[Database], Iterator[Item]]


@sql_function
def madlib_mop_check(plpy: Any) -> List[Tuple[str, str, bool, str]]:
    """Rows (item, value, ok, remedy); a probe that fails is a row with ok = false."""
    failures = (plpy.Error, plpy.SPIError, CerebroError, ImportError, OSError, ValueError, LookupError)
    return [astuple(item) for item in items(PlpyDatabase(plpy), failures)]


def items(database: Database, failures: Tuple[Any, ...]) -> Iterator[Item]:
    """Every item in order; `failures` are the exceptions that become rows."""
    for name, probe in PROBES:
        try:
            yield from list(probe(database))
        except failures as error:
            yield Item(name, "failed", False, str(error))


def _machine(database: Database) -> Iterator[Item]:
    yield Item("host", platform.node())
    yield Item("cpus", str(cores()))
    free = available_bytes()
    remedy = "free memory, or train with fewer segments or a smaller cache_mb"
    yield _least("free memory", free, LEAST_MEMORY, remedy)
    # A backend's working directory is the data directory, which a plain role may not ask for.
    free = shutil.disk_usage(os.getcwd()).free
    yield _least("free disk", free, LEAST_DISK, "free space on the disk of the data directory")


def _gpus(database: Database) -> Iterator[Item]:
    present = gpus()
    cpu_build = "+cpu" in (_version(("torch",)) or "")
    remedy = "torch is a CPU build; install a CUDA build to use the GPUs" if present and cpu_build else ""
    yield Item("gpus", ", ".join(present) or "none", True, remedy)


def _server(database: Database) -> Iterator[Item]:
    row = one(database, query("check", "server"))
    yield Item("server", f"{row['engine']} {row['version']}")
    same = row["installed"] == __version__
    remedy = f"install the version of the package: cerebro-db install, in database {row['database']}"
    yield Item("cerebro in SQL", row["installed"], same, "" if same else remedy)
    yield Item("cerebro_db", f"{__version__} in {Path(__file__).resolve().parents[2]}")


def _python(database: Database) -> Iterator[Item]:
    yield Item("interpreter", f"{platform.python_version()}, prefix {sys.prefix}")
    for name, distributions in PACKAGES:
        yield _package(name, distributions)
    yield _minor()


def _package(name: str, distributions: Tuple[str, ...]) -> Item:
    version = _version(distributions)
    spec = importlib.util.find_spec(name)
    if spec is None or version is None:
        where = Path(__file__).resolve().parents[2]
        return Item(name, "missing", False, f"pip install {distributions[0]} where cerebro_db is: {where}")
    return Item(name, f"{version} in {Path(spec.origin or '').parent.parent}")


def _minor() -> Item:
    """The interpreter that plpython3u embeds must be the one that the compiled packages are for."""
    spec = importlib.util.find_spec("numpy")
    found = re.search(r"/python(3\.\d+)/", spec.origin or "") if spec else None
    packages = found.group(1) if found else interpreter()
    remedy = f"make the virtual environment with /usr/bin/python{interpreter()}"
    same = packages == interpreter()
    return Item("libpython", f"{interpreter()}, packages for {packages}", same, "" if same else remedy)


def _workers(database: Database) -> Iterator[Item]:
    yield Item("worker processes", f"by {child_interpreter()}")


def _sessions(database: Database) -> Iterator[Item]:
    row = one(database, query("check", "sessions"))
    needed = row["segments"] + 1
    enough = row["free"] >= needed
    remedy = f"a run takes {needed} sessions; raise max_connections or end idle sessions"
    yield Item("sessions", f"{row['free']} of {row['most']} free", enough, "" if enough else remedy)


def _loopback(database: Database) -> Iterator[Item]:
    from cerebro_db.loopback import Loopback  # needs psycopg2, which may be what is missing

    loopback = Loopback(database, lock_seconds=LOCK_SECONDS)
    try:
        with loopback.connect() as session:
            facts = one(session, query("check", "session"))
    finally:
        loopback.close()
    yield Item("loopback", f"a session as {facts['caller']} over {facts['way']}")


def _roles(database: Database) -> Iterator[Item]:
    row = one(database, query("check", "roles"))
    held = ", ".join(row["held"]) or "neither"
    complete = len(row["present"]) == len(("cerebro_user", "cerebro_admin"))
    remedy = "create the missing role: cerebro-db install"
    yield Item("roles", f"{row['caller']} has {held}", complete, "" if complete else remedy)


PROBES: Tuple[Tuple[str, Probe], ...] = (
    ("machine", _machine),
    ("gpus", _gpus),
    ("server", _server),
    ("interpreter", _python),
    ("worker processes", _workers),
    ("sessions", _sessions),
    ("loopback", _loopback),
    ("roles", _roles),
)


def _least(name: str, size: int, least: int, remedy: str) -> Item:
    enough = size >= least
    return Item(name, f"{size / (1 << 30):.1f} GiB", enough, "" if enough else remedy)


def _version(distributions: Tuple[str, ...]) -> Optional[str]:
    for name in distributions:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None
