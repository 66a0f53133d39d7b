"""One self-contained HTML page about a run: who won, how it learned, and where the time went.

`record` holds plain values, `read` fills them from the views, `accounting` and `figures` turn them
into numbers and plots without touching a database or a file, `page` puts them into HTML.
"""

from __future__ import annotations

from pathlib import Path
from typing import Union

from cerebro_db.database import Database
from cerebro_db.report.page import render
from cerebro_db.report.read import read_run

__all__ = ["read_run", "render", "write_report"]


def write_report(db: Database, run_id: int, path: Union[str, Path]) -> Path:
    """Write the page about a run, finished or not, and return where it is.

    Raises MissingError when the caller has no run of that number.
    """
    page = render(read_run(db, run_id))
    target = Path(path).expanduser().resolve()
    target.write_text(page, "utf-8")
    return target
