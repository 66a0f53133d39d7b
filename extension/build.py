"""The files of `create extension cerebro`: a control file and a script, made from sql/ and udfs/ for one engine.

    python extension/build.py build --pg-config PROGRAM --output FOLDER
    python extension/build.py install --pg-config PROGRAM

Run by an interpreter that has the packages of cerebro-db. The Makefile beside it has the same two as targets.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Dict, List

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from cerebro_db import __version__  # noqa: E402 - this checkout, not what is installed
from cerebro_db.engines import GREENPLUM, POSTGRESQL  # noqa: E402
from cerebro_db.install import pieces  # noqa: E402

SQL = HERE.parent / "sql"
#: What is for psql only: its transaction and settings, and that there is no extension.
FOR_PSQL = (SQL / "install.sql", SQL / "include" / "not_as_extension.sql")
#: The extension's schema is there before its script, and an extension may not make sure of what is not part of it.
_OWN_SCHEMA = "create schema if not exists cerebro_private;\n"
#: Keeps psql from running a script that only makes sense as an extension.
_GUARD = '\\echo Use "CREATE EXTENSION cerebro" to load this file. \\quit\n'


def files(engine: str) -> Dict[str, str]:
    """Name -> text of what belongs into the folder `extension` of a server."""
    control = (HERE / "cerebro.control").read_text("utf-8")
    return {
        "cerebro.control": control.replace("@version@", __version__),
        f"cerebro--{__version__}.sql": script(engine),
    }


def script(engine: str) -> str:
    """The script of the extension: what install.sql includes, between what only an extension needs."""
    origin = f"-- cerebro-db {__version__} for {engine}: made by extension/build.py from sql/ and udfs/; edit those.\n"
    included = [str(sql).replace(_OWN_SCHEMA, "") for file, sql in pieces(FOR_PSQL[0], engine) if file not in FOR_PSQL]
    before, after = ((HERE / name).read_text("utf-8") for name in ("before.sql", "after.sql"))
    return "\n".join([_GUARD + origin, before, *included, after])


def engine_of(pg_config: str) -> str:
    """Which engine an installation is; Greenplum's programs say so."""
    server = Path(_asked(pg_config, "--bindir")) / "postgres"
    words = subprocess.run([str(server), "--gp-version"], capture_output=True, text=True, check=False)
    return GREENPLUM if words.returncode == 0 else POSTGRESQL


def write(folder: Path, engine: str) -> List[Path]:
    """Write the files; gives their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in files(engine).items():
        (folder / name).write_text(text, "utf-8")
        (folder / name).chmod(0o644)
        written.append(folder / name)
    return written


def main(words: List[str]) -> int:
    parser = argparse.ArgumentParser(description="The files of 'create extension cerebro'.")
    parser.add_argument("command", choices=("build", "install"))
    parser.add_argument("--pg-config", default="pg_config", help="the server's pg_config; default: the one on the PATH")
    parser.add_argument("--output", type=Path, help="where build writes")
    given = parser.parse_args(words)
    if given.command == "build" and given.output is None:
        parser.error("build needs --output")
    try:
        engine = engine_of(given.pg_config)
        installed = Path(_asked(given.pg_config, "--sharedir")) / "extension"
        written = write(given.output if given.command == "build" else installed, engine)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"build.py: {error}\n")
        return 1
    sys.stdout.write("".join(f"{path} ({engine})\n" for path in written))
    return 0


def _asked(pg_config: str, option: str) -> str:
    return subprocess.run([pg_config, option], capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
