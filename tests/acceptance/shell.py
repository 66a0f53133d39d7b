"""Runs `cerebro-db` in processes of its own, as a user does."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.processes import started


class Shell:
    """Runs the command against one database."""

    def __init__(self, dsn: str, folder: Path) -> None:
        self._dsn = dsn
        self._folder = folder

    def start(self, *words: str) -> subprocess.Popen[str]:
        return started(self._dsn, *words, folder=self._folder)

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
