"""What a server and the machine that trains have and lack, one row per item, each with its remedy.

Asked in a backend, that machine is the server's host; asked in a client, where the server has no PL/Python,
it is the client's.
"""

from __future__ import annotations

from typing import Any, Callable, Iterator, Tuple

from cerebro_db import __version__, hosts, inventory
from cerebro_db.database import Database, one
from cerebro_db.engines import dialect, on_greenplum
from cerebro_db.environment import child_interpreter
from cerebro_db.inventory import Item
from cerebro_db.sqltext import query

#: Into how many segments PostgreSQL packs where nobody says.
SEGMENTS = 4
#: How long the probe of a loopback session waits for a lock [s].
LOCK_SECONDS = 5.0

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
    yield from inventory.machine()


def _disk(database: Database) -> Iterator[Item]:
    yield from inventory.disk()


def _gpus(database: Database) -> Iterator[Item]:
    yield from inventory.graphics()


def _server(database: Database) -> Iterator[Item]:
    row = one(database, query("check", "server"))
    version = one(database, dialect(database, "server_version"))["version"]
    yield Item("server", f"{row['engine']} {version}")
    same = row["installed"] == __version__
    remedy = f"install the version of the package: cerebro-db install, in database {row['database']}"
    yield Item("cerebro in SQL", row["installed"], same, "" if same else remedy)
    yield inventory.package()


def _python(database: Database) -> Iterator[Item]:
    yield from inventory.python()


def _libpython(database: Database) -> Iterator[Item]:
    yield inventory.libpython()


def _workers(database: Database) -> Iterator[Item]:
    yield Item("worker processes", f"by {child_interpreter()}")


def _sessions(database: Database) -> Iterator[Item]:
    row = one(database, query("check", "sessions"), segments=len(hosts.segments(database)) or SEGMENTS)
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
    host = "every host of the cluster" if on_greenplum(database) else "the server"
    where = "" if row["available"] else f"have plpython3u installed on {host}, and "
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
