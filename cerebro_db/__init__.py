"""Deep-learning model selection inside PostgreSQL and Greenplum by Model Hopper Parallelism."""

from __future__ import annotations

import importlib
import typing

__version__ = "0.1.0"

__all__ = ["CerebroError", "Run", "cancel", "evaluate", "find_run", "fit", "predict", "resume", "status"]


def __getattr__(name: str) -> typing.Any:
    """Public names load when they are used: in a database backend, `import cerebro_db` must stay light."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "errors" if name == "CerebroError" else "api"
    return getattr(importlib.import_module(f"cerebro_db.{home}"), name)
