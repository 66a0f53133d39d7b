"""One self-contained HTML page about the experiments, made from their CSV files alone."""

from __future__ import annotations

from pathlib import Path

from experiments.report.page import render

PAGE = "report.html"

__all__ = ["PAGE", "render", "write"]


def write(folder: Path) -> Path:
    """Write the page beside the files it is made from, and return where it is."""
    target = (folder / PAGE).resolve()
    target.write_text(render(folder), "utf-8")
    return target
