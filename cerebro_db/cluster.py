"""The embedded default: a private PostgreSQL cluster of this machine, never the system's own.

It lives in one folder (`environment.home()`): `data/`, `sock/`, `log/`, `server-exports/`, `cluster.json`
(port and superuser, chosen once) and `dsn`. Started by root the server runs as OS user `postgres`, else as the
user who starts it. Peer authentication lets that user and root in as the superuser, every other OS user
as the role of its own name; TCP takes scram passwords.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import socket
import subprocess
import sysconfig
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence

from cerebro_db.client import PsycopgDatabase, connect, make_dsn
from cerebro_db.environment import home as default_home
from cerebro_db.environment import memory_bytes
from cerebro_db.errors import SetupError
from cerebro_db.install import install
from cerebro_db.postgres import Binaries, find_binaries, require_interpreter
from cerebro_db.sqltext import Fragment, fill, ident, query

DATABASE = "cerebro"
DEFAULT_SEGMENTS = 4
#: The kernel's limit on the path of a Unix socket [bytes].
SOCKET_PATH_BYTES = 107

_HBA = """\
local all all peer map=cerebro
host all all 127.0.0.1/32 scram-sha-256
"""
_IDENT = """\
cerebro {superuser} {superuser}
cerebro root {superuser}
cerebro /^(.*)$ \\1
"""


@dataclass(frozen=True)
class Status:
    """Where an embedded server stands; `dsn` and `pid` are None while it is down."""

    home: Path
    up: bool
    pid: Optional[int]
    version: Optional[str]
    dsn: Optional[str]
    log: Path


class Cluster:
    """One private cluster under `home`; used from one process at a time.

    `settings` are server settings that win over the computed ones. The server's PYTHONPATH is the
    folder of the running package, when its user can read that, and the interpreter's site-packages.
    New sessions import the package as it is then, so a new version needs no restart.
    """

    def __init__(
        self,
        home: Optional[Path] = None,
        settings: Optional[Mapping[str, str]] = None,
        notice: Callable[[str], None] = lambda message: None,
    ) -> None:
        self.home = (home or default_home()).absolute()
        self.data = self.home / "data"
        self.sockets = self.home / "sock"
        self.log = self.home / "log" / "server.log"
        #: What runs from SQL export; a client's exports are its user's own.
        self.exports = self.home / "server-exports"
        self._settings = dict(settings or {})
        self._notice = notice
        self._user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name

    def up(self, segments: Optional[int] = None) -> Status:
        """Create what is missing, start the server, install the extension; fine when it is up.

        `segments` is how many a packed table gets; None keeps what is set, DEFAULT_SEGMENTS at first.
        """
        if segments is not None and segments < 1:
            raise SetupError(f"segments is {segments}, expected 1 or more")
        self.start()
        self._prepare_database(segments)
        return self.status()

    def start(self) -> None:
        """Create the cluster when there is none and start its server; fine when it runs."""
        if self._postmaster() is not None:
            return
        self._check_user()
        binaries = find_binaries(self._data_version(), self.data)
        require_interpreter(binaries)
        self._check_readable()
        self._make_folders()
        if self._data_version() is None:
            self._notice(f"creating a PostgreSQL {binaries.version} cluster in {self.data}")
            self._initialise(binaries)
        self._write_settings(binaries)
        self._launch(binaries)

    def down(self) -> None:
        """Stop the server at once, ending its sessions; fine when it is down already."""
        if self._postmaster() is not None:
            binaries = find_binaries(self._data_version(), self.data)
            self._run([binaries.program("pg_ctl"), "stop", "-D", self.data, "-m", "fast", "-w", "-t", "60"])
        (self.home / "dsn").unlink(missing_ok=True)

    def remove(self) -> None:
        """Stop the server and delete its data; the rest of `home` (a virtual environment) stays."""
        self.down()
        for folder in (self.data, self.sockets, self.log.parent, self.exports):
            shutil.rmtree(folder, ignore_errors=True)
        (self.home / "cluster.json").unlink(missing_ok=True)

    def dsn(self, dbname: str = DATABASE) -> str:
        """The superuser's DSN over the Unix socket. Raises SetupError while the server is down."""
        if self._postmaster() is None:
            raise SetupError(f"the embedded server in {self.home} is down; start it with 'cerebro-db up'")
        return self._dsn(dbname)

    def status(self) -> Status:
        pid = self._postmaster()
        dsn = self._dsn(DATABASE) if pid is not None else None
        return Status(self.home, pid is not None, pid, self._data_version(), dsn, self.log)

    # -- creating ------------------------------------------------------------------------------

    def _make_folders(self) -> None:
        longest = len(os.fsencode(self.sockets / ".s.PGSQL.65535"))
        if longest > SOCKET_PATH_BYTES:
            raise SetupError(
                f"the socket path under {self.sockets} has {longest} bytes, the system allows "
                f"{SOCKET_PATH_BYTES}; set CEREBRO_HOME to a shorter path"
            )
        self.home.mkdir(parents=True, exist_ok=True)
        modes = ((self.data, 0o700), (self.sockets, 0o755), (self.log.parent, 0o755), (self.exports, 0o700))
        for folder, mode in modes:
            if not folder.exists():
                folder.mkdir(mode=mode)
                folder.chmod(mode)
                self._give(folder)

    def _initialise(self, binaries: Binaries) -> None:
        options = ["--encoding=UTF8", "--locale=C.UTF-8", "--auth-local=peer", "--auth-host=scram-sha-256"]
        self._run([binaries.program("initdb"), "-D", self.data, "-U", self._user, *options])
        self._write(self.data / "pg_hba.conf", _HBA)
        self._write(self.data / "pg_ident.conf", _IDENT.format(superuser=self._user))
        with (self.data / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.write("\ninclude_if_exists = 'cerebro.conf'  # rewritten at every start; use ALTER SYSTEM\n")

    def _write_settings(self, binaries: Binaries) -> None:
        settings = {
            "port": str(self._port()),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self.sockets),
            **_sized_settings(),
            **self._settings,
        }
        quoted = (f"{name} = '{_quoted(value)}'\n" for name, value in settings.items())
        self._write(self.data / "cerebro.conf", "".join(quoted))

    def _port(self) -> int:
        """The recorded port, or a free one that is recorded now."""
        record = self.home / "cluster.json"
        if record.exists():
            return int(json.loads(record.read_text("utf-8"))["port"])
        port = _free_port()
        record.write_text(json.dumps({"port": port, "superuser": self._user}) + "\n", "utf-8")
        return port

    # -- starting ------------------------------------------------------------------------------

    def _launch(self, binaries: Binaries) -> None:
        port = self._port()
        if not _is_free(port):
            raise SetupError(
                f"port {port} of the embedded server is taken by another program; stop that program, "
                f"or delete {self.home / 'cluster.json'} to take another port"
            )
        # No process holds the folder, so lock files are leftovers, even if their process id lives again.
        for leftover in (self.data / "postmaster.pid", *self.sockets.glob(".s.PGSQL.*")):
            leftover.unlink(missing_ok=True)
        command = [binaries.program("pg_ctl"), "start", "-D", self.data, "-l", self.log, "-w", "-t", "120"]
        self._run(command, failed=f"the server did not start; its log is {self.log}")
        (self.home / "dsn").write_text(self._dsn(DATABASE) + "\n", "utf-8")

    def _environment(self) -> Dict[str, str]:
        # A clean environment: what the user has set for a shell (OMP_NUM_THREADS, PG*) is not the server's.
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            "HOME": pwd.getpwnam(self._user).pw_dir,
            "PYTHONPATH": os.pathsep.join(str(folder) for folder in self._python_folders()),
            "PYTHONNOUSERSITE": "1",
            "CEREBRO_EXPORTS": str(self.exports),
        }

    def _python_folders(self) -> List[Path]:
        installed = [Path(sysconfig.get_path(kind)) for kind in ("purelib", "platlib")]
        running = Path(__file__).resolve().parents[1]
        if not self._can_read(running) and (installed[0] / "cerebro_db").is_dir():
            return list(dict.fromkeys(installed))
        return list(dict.fromkeys([running, *installed]))

    def _check_user(self) -> None:
        if self._user not in {entry.pw_name for entry in pwd.getpwall()}:
            raise SetupError(
                f"OS user {self._user!r}, who runs the server, does not exist; on Debian the package "
                "'postgresql' creates it"
            )

    def _check_readable(self) -> None:
        for folder in self._python_folders():
            if not self._can_read(folder):
                raise SetupError(
                    f"the server's user {self._user!r} cannot read {folder}; "
                    "put the virtual environment where every user can read it, such as /var/lib or /opt"
                )

    def _can_read(self, path: Path) -> bool:
        test = ["test", "-r", str(path), "-a", "-x", str(path)]
        return subprocess.run(test, **self._as_user(), check=False).returncode == 0

    # -- the database --------------------------------------------------------------------------

    def _prepare_database(self, segments: Optional[int]) -> None:
        with connect(self._dsn("postgres")) as database:
            if not database.rows(query("cluster", "database_exists"), name=DATABASE):
                self._notice(f"creating database {DATABASE}")
                database.script(fill(Fragment("create database {name}"), name=ident(DATABASE)))
        with connect(self._dsn(DATABASE)) as database:
            install(database)
            if segments is not None or not _has_segments(database):
                set_segments(database, DATABASE, segments or DEFAULT_SEGMENTS)

    def _dsn(self, dbname: str) -> str:
        return make_dsn(host=str(self.sockets), port=self._port(), user=self._user, dbname=dbname)

    # -- processes -----------------------------------------------------------------------------

    def _postmaster(self) -> Optional[int]:
        """Process id of the running server; a leftover postmaster.pid is none, even if its pid lives."""
        holders = _processes_in(self.data)
        recorded = _first_number(self.data / "postmaster.pid")
        if recorded in holders:
            return recorded
        if holders:
            raise SetupError(
                f"processes {holders} still use {self.data} but its server is gone; end them and try again"
            )
        return None

    def _data_version(self) -> Optional[str]:
        try:
            return (self.data / "PG_VERSION").read_text("utf-8").strip()
        except FileNotFoundError:
            return None
        except PermissionError:
            owner = self.data.owner()
            raise SetupError(
                f"{self.data} belongs to OS user {owner!r}; run this as that user or root, "
                "or set CEREBRO_HOME to a folder of your own"
            ) from None

    def _run(self, command: Sequence[object], failed: str = "") -> None:
        words = [str(word) for word in command]
        done = subprocess.run(
            words, **self._as_user(), env=self._environment(), cwd="/", text=True, check=False,
            stdin=subprocess.DEVNULL, capture_output=True,
        )
        if done.returncode != 0:
            said = " ".join((done.stderr or done.stdout).split())[-400:]
            raise SetupError(f"{failed or Path(words[0]).name + ' failed'}: {said}; {self._log_tail()}")

    def _log_tail(self) -> str:
        try:
            lines = self.log.read_text("utf-8", "replace").splitlines()
        except OSError:
            return "no log was written"
        return "the log ends with: " + " | ".join(lines[-3:])

    def _as_user(self) -> Dict[str, Any]:
        if os.geteuid() != 0:
            return {}
        return {"user": self._user, "group": self._user, "extra_groups": []}

    def _give(self, path: Path) -> None:
        if os.geteuid() == 0:
            shutil.chown(path, self._user, self._user)

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text, "utf-8")
        self._give(path)


@contextmanager
def temporary_cluster(settings: Optional[Mapping[str, str]] = None) -> Iterator[Cluster]:
    """A started cluster in a folder of its own that the server's user can reach; removed after."""
    home = Path(tempfile.mkdtemp(prefix="cerebro-", dir="/var/tmp"))  # noqa: S108 - mkdtemp makes it private
    home.chmod(0o755)  # noqa: S103 - the server's user must get in
    cluster = Cluster(home, settings)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.remove()
        shutil.rmtree(home, ignore_errors=True)


def set_segments(database: PsycopgDatabase, name: str, segments: int) -> None:
    """Set how many segments new packed tables of a database get; seen by new sessions."""
    template = Fragment("alter database {name} set cerebro.segments = '{segments}'")
    database.script(fill(template, name=ident(name), segments=Fragment(f"{segments:d}")))


def _has_segments(database: PsycopgDatabase) -> bool:
    return bool(database.rows(query("cluster", "has_segments")))


def _sized_settings() -> Dict[str, str]:
    """Settings that follow the machine's memory; the rest are PostgreSQL's defaults."""
    mebibytes = memory_bytes() >> 20
    return {
        "shared_buffers": f"{min(4096, max(64, mebibytes // 8))}MB",
        "effective_cache_size": f"{max(128, mebibytes // 2)}MB",
        "maintenance_work_mem": f"{min(1024, max(64, mebibytes // 32))}MB",
        "max_wal_size": "4GB",
    }


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "''")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _first_number(path: Path) -> Optional[int]:
    try:
        return int(path.read_text("utf-8").split()[0])
    except (OSError, IndexError, ValueError):
        return None


def _processes_in(folder: Path) -> List[int]:
    """Processes whose working directory is `folder`: a PostgreSQL server and its sessions."""
    numbered = [entry for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [int(entry.name) for entry in numbered if _works_in(entry, folder)]


def _works_in(process: Path, folder: Path) -> bool:
    try:
        return os.readlink(process / "cwd") == os.path.realpath(folder)
    except OSError:
        return False  # ended meanwhile, or another user's
