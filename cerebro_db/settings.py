"""The configuration file: what a person would otherwise type with every command.

    dsn = "host=db.example dbname=shop"

    [fit]                       # any setting of a run, see options.Options
    strategy = "hybrid"
    cache_mb = 4096

`cerebro-db --config FILE`, else $CEREBRO_CONFIG, else ./cerebro.toml, else
~/.config/cerebro-db/config.toml. Arguments win over it, and it wins over the server's settings `cerebro.<name>`.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Union

from cerebro_db.errors import MissingError, UsageError, unknown
from cerebro_db.options import Options, as_object
from cerebro_db.planning import FitRequest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

VARIABLE = "CEREBRO_CONFIG"
KEYS = ("dsn", "fit")


@dataclass(frozen=True)
class Settings:
    """What a configuration file says; nothing when there is none."""

    path: Optional[Path] = None
    dsn: Optional[str] = None
    #: Options of a run by name.
    fit: Mapping[str, Any] = field(default_factory=dict)

    def below(self, request: FitRequest, options: Union[None, str, Mapping[str, Any]]) -> FitRequest:
        """The request with `options` (a mapping or JSON), and where those are silent, with the file's."""
        merged = {**self.fit, **as_object(options)}
        return replace(request, options=json.dumps(merged) if merged else None)


def find(given: Optional[Path] = None) -> Settings:
    """Read the file that is named, else the first that is there. Raises UsageError for what it may not say."""
    named = given or os.environ.get(VARIABLE)
    if named:
        path = Path(named).expanduser()
        if not path.is_file():
            origin = "--config" if given else f"${VARIABLE}"
            raise MissingError(f"configuration file {path} does not exist; {origin} names it")
        return read(path)
    return next((read(path) for path in _usual() if path.is_file()), Settings())


def read(path: Path) -> Settings:
    """Read one file, every key and value checked."""
    try:
        document = from_toml(path.read_text("utf-8"))
    except ValueError as error:  # also of text that is not UTF-8
        raise UsageError(f"configuration file {path} is not TOML: {error}") from None
    for name in document:
        if name not in KEYS:
            raise unknown(f"key in {path}", name, KEYS)
    dsn, fit = document.get("dsn"), document.get("fit", {})
    if dsn is not None and not isinstance(dsn, str):
        raise UsageError(f"dsn in {path} is {dsn!r}, expected text such as 'dbname=shop'")
    if not isinstance(fit, dict):
        raise UsageError(f"fit in {path} is {fit!r}, expected a table [fit] of settings such as strategy")
    return Settings(path, dsn, _checked(path, fit))


def from_toml(text: str) -> Dict[str, Any]:
    """Raises ValueError for what is not TOML."""
    document: Dict[str, Any] = tomllib.loads(text)
    return document


def _checked(path: Path, fit: Dict[str, Any]) -> Dict[str, Any]:
    known = [item.name for item in fields(Options)]
    for name in fit:
        if name not in known:
            raise unknown(f"key of [fit] in {path}", name, known)
    try:
        Options.parse(None, {}, fit)
    except UsageError as error:
        raise UsageError(f"[fit] in {path}: {error}") from None
    return fit


def _usual() -> tuple[Path, Path]:
    """Of this folder and of this person."""
    folder = os.environ.get("XDG_CONFIG_HOME")
    person = Path(folder) if folder else Path.home() / ".config"
    return Path("cerebro.toml").absolute(), person / "cerebro-db" / "config.toml"
