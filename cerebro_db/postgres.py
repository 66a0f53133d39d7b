"""PostgreSQL's programs on this machine: which version, where, and whether PL/Python fits."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import List, Optional, Tuple

from cerebro_db.environment import interpreter, linked_python
from cerebro_db.errors import SetupError

_DEBIAN = Path("/usr/lib/postgresql")


@dataclass(frozen=True)
class Binaries:
    """The server programs of one PostgreSQL installation."""

    folder: Path
    #: As the server says it, such as `15.20`.
    version: str

    @property
    def major(self) -> str:
        return self.version.split(".")[0]

    @property
    def order(self) -> Tuple[int, ...]:
        """Sort key: newer is greater."""
        return tuple(int(part) for part in self.version.split("."))

    def program(self, name: str) -> Path:
        return self.folder / name

    def plpython(self) -> Optional[Path]:
        """The library of plpython3u, or None when this installation lacks it."""
        if not (self._asked("--sharedir") / "extension" / "plpython3u.control").exists():
            return None
        library = self._asked("--pkglibdir") / "plpython3.so"
        return library if library.exists() else None

    def _asked(self, option: str) -> Path:
        return Path(_output(self.program("pg_config"), option))


def find_binaries(major: Optional[str] = None, data: Optional[Path] = None) -> Binaries:
    """The newest installation that has plpython3u; of version `major` when a data directory fixes it.

    Raises SetupError that names the Debian package to install.
    """
    found = installations()
    fitting = [one for one in found if major in (None, one.major) and one.plpython() is not None]
    if fitting:
        return max(fitting, key=lambda one: one.order)
    if major is not None:
        raise SetupError(
            f"{data} was made by PostgreSQL {major}, which is not on this machine with plpython3u; "
            f"install postgresql-plpython3-{major}, or move that folder away to start anew"
        )
    if not found:
        raise SetupError(
            "no PostgreSQL server is on this machine; on Debian: "
            "apt-get install postgresql, and postgresql-plpython3-N for its version N"
        )
    newest = max(found, key=lambda one: one.order)
    raise SetupError(
        f"PostgreSQL {newest.version} lacks the language plpython3u; "
        f"on Debian: apt-get install postgresql-plpython3-{newest.major}"
    )


def installations() -> List[Binaries]:
    """Every PostgreSQL server on this machine: where pg_config says, and Debian's folders."""
    folders = list(_DEBIAN.glob("*/bin"))
    pg_config = shutil.which("pg_config")
    if pg_config:
        folders.append(Path(_output(Path(pg_config), "--bindir")))
    return [binaries for folder in dict.fromkeys(folders) if (binaries := _at(folder))]


def require_interpreter(binaries: Binaries) -> None:
    """Refuse a plpython3 that embeds another Python than the one running, whose packages it would load."""
    library = binaries.plpython()
    linked = linked_python(library) if library else None
    if linked not in (None, interpreter()):
        raise SetupError(
            f"plpython3 of PostgreSQL {binaries.version} embeds Python {linked}, "
            f"and this virtual environment has Python {interpreter()}; "
            f"make it with /usr/bin/python{linked} -m venv"
        )


def _at(folder: Path) -> Optional[Binaries]:
    needed = ("postgres", "initdb", "pg_ctl", "pg_config")
    if not all((folder / name).exists() for name in needed):
        return None
    version = re.search(r"\d+(\.\d+)*", _output(folder / "postgres", "--version"))
    return Binaries(folder, version.group()) if version else None


def _output(program: Path, option: str) -> str:
    return subprocess.run([str(program), option], capture_output=True, text=True, check=True).stdout.strip()
