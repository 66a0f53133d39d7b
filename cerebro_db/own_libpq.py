"""psycopg2 with the libpq that it came with, in a process that exports one of its own.

A backend of Greenplum speaks to its segments by a libpq, whose names it shows to all libraries that it loads. The
dynamic linker would give psycopg2 these, of another version, and the process would crash at the first connection.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
from contextlib import suppress


def prefer() -> None:
    """Import psycopg2, when there is one, so that it looks for names in its own libraries first."""
    if "psycopg2" in sys.modules or not hasattr(ctypes.CDLL(None), "PQconninfoParse"):
        return
    before = sys.getdlopenflags()
    sys.setdlopenflags(before | os.RTLD_DEEPBIND)
    try:
        with suppress(ImportError):  # whoever needs it says so
            importlib.import_module("psycopg2")
    finally:
        sys.setdlopenflags(before)
