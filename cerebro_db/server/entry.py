"""How every SQL function enters the package: one wrapper that turns our errors into SQL errors."""

from __future__ import annotations

import functools
from typing import Any, Callable, TypeVar

from cerebro_db.errors import CancelledError, CerebroError, SetupError

Result = TypeVar("Result")
_REMEDY = "madlib_mop_check() names what to install"


def sql_function(body: Callable[..., Result]) -> Callable[..., Result]:
    """Wrap `body(plpy, ...)`: a CerebroError reaches SQL as `cerebro: <sentence>` with its SQLSTATE.

    PL/Python shows the class name of an uncaught exception before its message, hence the class.
    """

    @functools.wraps(body)
    def enter(plpy: Any, *arguments: Any, **named: Any) -> Result:
        try:
            return body(plpy, *arguments, **named)
        except CerebroError as error:
            raise _shown(plpy, error) from None
        except KeyboardInterrupt:  # Greenplum's PL/Python raises it for a cancel, and gives it no SQLSTATE of its own
            raise _shown(plpy, CancelledError("canceling statement due to user request")) from None
        except ImportError as error:
            raise _shown(plpy, SetupError(f"{error} on the server; {_REMEDY}")) from None

    return enter


def _shown(plpy: Any, error: CerebroError) -> Any:
    # An SPIError: PL/Python of 9.4 looks for the SQLSTATE of no other.
    kind = type("cerebro", (plpy.SPIError,), {"__module__": "builtins", "sqlstate": error.sqlstate})
    return kind(str(error))
