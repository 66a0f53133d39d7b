"""What a server and the machine that trains have and lack, one row per item, each with its remedy.

Asked in a backend, that machine is the server's host; asked in a client, where the server has no PL/Python,
it is the client's. Imports nothing heavy: torch starts threads and CUDA, so versions are read from package
metadata.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Callable, Iterator, Optional, Tuple

from cerebro_db import __version__
from cerebro_db.database import Database, one
from cerebro_db.environment import available_bytes, child_interpreter, cores, gpus, interpreter
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


def items(
    database: Database, failures: Tuple[Any, ...], probes: Tuple[Tuple[str, Probe], ...]
) -> Iterator[Item]:
    """Every item in order; `failures` are the exceptions that become rows."""
    for name, probe in probes:
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


def _disk(database: Database) -> Iterator[Item]:
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
    yield Item("cerebro_db", f"{__version__} in {Path(__file__).resolve().parents[1]}")


def _python(database: Database) -> Iterator[Item]:
    yield Item("interpreter", f"{platform.python_version()}, prefix {sys.prefix}")
    for name, distributions in PACKAGES:
        yield _package(name, distributions)


def _libpython(database: Database) -> Iterator[Item]:
    yield _minor()


def _package(name: str, distributions: Tuple[str, ...]) -> Item:
    version = _version(distributions)
    spec = importlib.util.find_spec(name)
    if spec is None or version is None:
        where = Path(__file__).resolve().parents[1]
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


def _plpython(database: Database) -> Iterator[Item]:
    value = f"not used by this database: {WITHOUT_PLPYTHON}"
    yield Item("plpython3u", value, True, f"for the others {plpython_remedy(database)}")


def plpython_remedy(database: Database) -> str:
    """What to do for functions in PL/Python."""
    row = one(database, query("check", "plpython"))
    where = "" if row["available"] else "have plpython3u installed on the server, and "
    who = "" if row["superuser"] else " as a superuser"
    return f"{where}run 'cerebro-db install' again{who}"


#: What goes without functions in PL/Python, and what does not.
WITHOUT_PLPYTHON = (
    "pack, configs, evaluate, predict and the strategies streaming, export and direct work from cerebro-db and "
    "Python; in_rdbms, hybrid and the madlib_mop functions of SQL do not"
)
#: Asked by madlib_mop_check.
SERVER_PROBES: Tuple[Tuple[str, Probe], ...] = (
    ("machine", _machine),
    ("free disk", _disk),
    ("gpus", _gpus),
    ("server", _server),
    ("interpreter", _python),
    ("libpython", _libpython),
    ("worker processes", _workers),
    ("sessions", _sessions),
    ("loopback", _loopback),
    ("roles", _roles),
)
#: Asked by a client whose server has no PL/Python.
CLIENT_PROBES: Tuple[Tuple[str, Probe], ...] = (
    ("machine", _machine),
    ("gpus", _gpus),
    ("server", _server),
    ("plpython3u", _plpython),
    ("interpreter", _python),
    ("worker processes", _workers),
    ("sessions", _sessions),
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
