"""Deep-learning model selection inside PostgreSQL and Greenplum by Model Hopper Parallelism."""

from __future__ import annotations

import importlib
import typing

__version__ = "0.1.0"

#: Public name -> the module that it lives in.
_HOMES = {
    "CerebroError": "errors",
    "Run": "api",
    "cancel": "api",
    "evaluate": "tables",
    "find_run": "api",
    "fit": "api",
    "generate_model_configs": "tables",
    "load_model_arch": "tables",
    "load_model_selection_table": "tables",
    "pack": "tables",
    "pack_validation": "tables",
    "predict": "tables",
    "resume": "api",
    "status": "api",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> typing.Any:
    """Public names load when they are used: in a database backend, `import cerebro_db` must stay light."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"cerebro_db.{_HOMES[name]}"), name)
