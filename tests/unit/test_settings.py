"""The configuration file: found in order, checked by key and value, below what the caller says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cerebro_db import settings
from cerebro_db.errors import MissingError, UsageError
from cerebro_db.planning import FitRequest


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home and a folder of nobody's: (tmp_path/home, tmp_path/here)."""
    for name in ("home", "here"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv(settings.VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def test_the_nearest_file_is_taken(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings.find() == settings.Settings()
    write(places / "home" / ".config" / "cerebro-db" / "config.toml", "dsn = 'dbname=person'")
    assert settings.find().dsn == "dbname=person"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(places / "xdg"))
    assert settings.find().dsn is None
    write(places / "xdg" / "cerebro-db" / "config.toml", "dsn = 'dbname=xdg'")
    assert settings.find().dsn == "dbname=xdg"
    write(places / "here" / "cerebro.toml", "dsn = 'dbname=here'")
    assert settings.find().dsn == "dbname=here"
    monkeypatch.setenv(settings.VARIABLE, str(write(places / "named.toml", "dsn = 'dbname=variable'")))
    assert settings.find().dsn == "dbname=variable"
    assert settings.find(write(places / "given.toml", "dsn = 'dbname=given'")).dsn == "dbname=given"


def test_a_named_file_must_be_there(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingError, match=r"no\.toml does not exist; --config names it"):
        settings.find(places / "no.toml")
    monkeypatch.setenv(settings.VARIABLE, "gone.toml")
    with pytest.raises(MissingError, match=r"gone\.toml does not exist; \$CEREBRO_CONFIG names it"):
        settings.find()


@pytest.mark.parametrize("options", [{"seed": 4}, '{"seed": 4}'])
def test_options_win_over_the_file(tmp_path: Path, options: Any) -> None:
    text = "[fit]\nstrategy = 'hybrid'\nseed = 3\nlock_seconds = 2.5\n"
    found = settings.read(write(tmp_path / "c.toml", text))
    request = found.below(FitRequest("t", "o", "s", 1), options)
    assert json.loads(str(request.options)) == {"strategy": "hybrid", "seed": 4, "lock_seconds": 2.5}
    assert settings.Settings().below(request, None).options is None


@pytest.mark.parametrize(("text", "message"), [
    ("dns = 'x'", "unknown key in {path} 'dns': did you mean 'dsn'?"),
    ("[fitt]\nseed = 1", "unknown key in {path} 'fitt': did you mean 'fit'?"),
    ("[fit]\nsed = 1", "unknown key of [fit] in {path} 'sed': did you mean 'seed'?"),
    ("[fit]\nstrategy = 'hybird'", "[fit] in {path}: unknown strategy 'hybird': did you mean 'hybrid'?"),
    ("[fit]\nseed = true", "[fit] in {path}: option seed is True, expected a number"),
    ("[fit]\nseed = [1]", "[fit] in {path}: option seed is [1], expected a number"),
    ("[fit]\nthreads = -1", "[fit] in {path}: option threads is -1, expected 0 or more"),
    ("fit = 1", "fit in {path} is 1, expected a table [fit]"),
    ("dsn = 5", "dsn in {path} is 5, expected text"),
    ("dsn", "configuration file {path} is not TOML: "),
])  # fmt: skip
def test_what_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path / "c.toml", text)
    with pytest.raises(UsageError, match=re.escape(message.format(path=path))):
        settings.read(path)
