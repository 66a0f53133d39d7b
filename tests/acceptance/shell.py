"""Runs `cerebro-db` in processes of its own, as a user does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


class Shell:
    """Runs the command against one database."""

    def __init__(self, dsn: str, folder: Path) -> None:
        self._dsn = dsn
        self._folder = folder

    def start(self, *words: str) -> subprocess.Popen[str]:
        path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
        return subprocess.Popen(
            [sys.executable, "-m", "cerebro_db.cli", *words, "--dsn", self._dsn], cwd=self._folder, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip

    def __call__(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        process = self.start(*words)
        stdout, stderr = process.communicate(timeout=120)
        assert process.returncode == code, stderr
        return subprocess.CompletedProcess(words, process.returncode, stdout, stderr)

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "--json").stdout)

    def error(self, *words: str) -> str:
        """The last line on stderr of a command that must fail; nothing goes to stdout."""
        done = self(*words, code=1)
        assert done.stdout == ""
        return done.stderr.splitlines()[-1]
