"""Every error the package raises on purpose.

    CerebroError
    ├── UsageError          an argument, a name or a config is wrong
    │   ├── MissingError    a table, column or model does not exist
    │   ├── ExistsError     an output exists already
    │   └── DataError       the rows themselves are unfit: NULL, NaN, ragged, one class
    ├── SetupError          the server or the machine lacks something
    └── RunError            a run failed, or cannot go on
        └── CancelledError  a run was cancelled; it can be resumed

A message is one sentence: the thing, its value, what was expected, and the remedy.
"""

from __future__ import annotations

import difflib
from typing import Iterable


class CerebroError(Exception):
    """Base of all errors raised on purpose; `sqlstate` is what SQL callers see."""

    sqlstate = "XX000"


class UsageError(CerebroError):
    sqlstate = "22023"  # invalid_parameter_value


class MissingError(UsageError):
    sqlstate = "42704"  # undefined_object


class ExistsError(UsageError):
    sqlstate = "42710"  # duplicate_object


class DataError(UsageError):
    sqlstate = "22000"  # data_exception


class SetupError(CerebroError):
    sqlstate = "58000"  # system_error


class RunError(CerebroError):
    sqlstate = "55000"  # object_not_in_prerequisite_state


class CancelledError(RunError):
    sqlstate = "57014"  # query_canceled


#: SQLSTATE -> class, for errors that come back from a server.
SQL_ERRORS = {
    kind.sqlstate: kind
    for kind in (UsageError, MissingError, ExistsError, DataError, SetupError, RunError, CancelledError)
}


def unknown(what: str, name: object, known: Iterable[str]) -> UsageError:
    """An error for a name outside a closed list, with the nearest known name."""
    names = {known_name.lower(): known_name for known_name in sorted(known)}
    verb = "are" if len(names) > 1 else "is"
    near = difflib.get_close_matches(str(name).lower(), list(names), n=1, cutoff=0.5)
    guess = f"did you mean {names[near[0]]!r}? " if near else ""
    return UsageError(f"unknown {what} {name!r}: {guess}known {verb} {', '.join(names.values())}")


def line_of(error: BaseException) -> str:
    """An error's message in one line."""
    return " ".join(str(error).split())
