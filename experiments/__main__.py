"""Measure and report: `python -m experiments [--size small] [--dsn DSN] [--results FOLDER] [question ...]`."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from typing import List

from rich.console import Console
from rich.markup import escape

from cerebro_db.errors import CerebroError, unknown
from experiments import report, runner
from experiments.place import bench
from experiments.questions.registry import QUESTIONS
from experiments.settings import SIZES

RESULTS = Path(__file__).parent / "results"


def main(words: List[str]) -> int:
    """0 when every question was measured, 1 when one failed, 2 for wrong arguments, 130 when interrupted."""
    for each in (signal.SIGINT, signal.SIGTERM):  # also where a shell has it ignored, so that the server ends too
        signal.signal(each, signal.default_int_handler)
    console = Console(highlight=False, soft_wrap=True)
    try:
        asked = _asked(words)
        folder = asked.results or RESULTS / asked.size
        with bench(asked.dsn) as place:
            code = runner.run(place, asked.questions or list(QUESTIONS), asked.size, folder, console)
    except CerebroError as error:
        console.print(f"[red]{escape(str(error))}[/red]")
        return 2
    console.print(f"\nreport: [bold]{report.write(folder)}[/bold]", soft_wrap=True)
    return code


def _asked(words: List[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m experiments")
    parser.add_argument("--size", default="small", help=", ".join(SIZES))
    parser.add_argument("--dsn", help="a server to use; without one a throwaway server is started")
    parser.add_argument("--results", type=Path, help=f"a folder for the files; {RESULTS}/<size> by default")
    parser.add_argument("questions", nargs="*", help=", ".join(QUESTIONS))
    asked = parser.parse_args(words)
    for name in asked.questions:
        if name not in QUESTIONS:
            raise unknown("question", name, QUESTIONS)
    if asked.size not in SIZES:
        raise unknown("size", asked.size, SIZES)
    asked.dsn = asked.dsn or None
    return asked


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
