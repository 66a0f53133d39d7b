"""Train without torch's compiler, which its optimizers import on their first use and then do not need.

That import takes about 1.7 s of CPU in every new session, as long as torch itself. A stand-in for the
module `torch._dynamo` answers the two calls that optimizers make; any other use of it brings the real one in.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any, Callable

_NAME = "torch._dynamo"


class _StandIn(ModuleType):
    """Nothing is compiled here, so nothing needs to be kept from the compiler."""

    @staticmethod
    def disable(function: Callable[..., Any], *arguments: object, **named: object) -> Callable[..., Any]:
        return function

    @staticmethod
    def graph_break(*arguments: object, **named: object) -> None:
        return None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(_real(), name)


def defer_compiler(torch: Any) -> None:
    """Put the stand-in where the compiler would be; does nothing when the compiler is loaded already."""
    if _NAME not in sys.modules:
        sys.modules[_NAME] = torch._dynamo = _StandIn(_NAME)


def _real() -> ModuleType:
    if isinstance(sys.modules.get(_NAME), _StandIn):
        del sys.modules[_NAME]
        sys.modules["torch"].__dict__.pop("_dynamo", None)
    return importlib.import_module(_NAME)
