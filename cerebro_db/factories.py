"""Code that architectures may name: only functions that an administrator has put on the list."""

from __future__ import annotations

import importlib
from typing import Any, Callable, Dict, Iterable

from cerebro_db.architecture import Architecture
from cerebro_db.database import Database
from cerebro_db.errors import SetupError
from cerebro_db.sqltext import query


def registry(database: Database, architectures: Iterable[str]) -> Dict[str, Callable[..., Any]]:
    """The listed factories that these architectures (JSON) name, imported; nothing else is imported.

    Raises SetupError when a listed one cannot be found on this machine.
    """
    parsed = [Architecture.parse(text) for text in sorted(set(architectures))]
    named = {item.options["factory"] for item in parsed if item.kind == "factory"}
    if not named:
        return {}
    allowed = {row["factory"] for row in database.rows(query("factories", "allowed"))}
    return {name: _imported(name) for name in sorted(named & allowed)}


def _imported(name: str) -> Callable[..., Any]:
    module, function = name.split(":")
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise SetupError(
            f"factory {name!r} is on the list but cannot be loaded here ({error}); install its package for the "
            "server's Python, or take it off by unregister_factory"
        ) from error
    return found
