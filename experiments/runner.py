"""Ask questions one after the other: files grow as measurements come in, and what fails is named and passed over."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Dict, List, Optional, Tuple

from rich.console import Console
from rich.markup import escape
from rich.status import Status

from cerebro_db.report.words import duration, short
from experiments import machine
from experiments.measured import FAILURES, Bench
from experiments.questions import registry
from experiments.results import SUFFIXES, Codec, Outcome, Row, Sample, Table, read

#: How a question may end.
MEASURED, FAILED, INTERRUPTED = "measured", "failed", "interrupted"
OUTCOMES = "outcomes.csv"


def run(bench: Bench, names: List[str], size: str, folder: Path, console: Console) -> int:
    """Measure the questions into `folder`: 0, 1 when one failed, 130 when Ctrl-C ended it."""
    for name in names:
        registry.asked(name, size)  # raises before anything is measured
    facts = machine.describe(bench.dsn)
    machine.write(folder, {**facts, "size": size})
    console.print(f"[bold]{facts['cores']} cores, {facts['memory_gb']} GB, {facts['server']}, size {size}[/bold]")
    outcomes = []
    for name in names:
        outcomes.append(Question(bench, name, size, folder, console).ask())
        _keep(folder, outcomes[-1])
        if outcomes[-1].outcome == INTERRUPTED:
            break
    return _summary(outcomes, console)


@dataclass
class Question:
    """One question while it is measured."""

    bench: Bench
    name: str
    size: str
    folder: Path
    console: Console

    def ask(self) -> Outcome:
        self.console.print(f"\n[bold]{self.name}[/bold]: {registry.words(self.name)}")
        for suffix in SUFFIXES.values():
            self._path(suffix).unlink(missing_ok=True)
        began, started = datetime.now(timezone.utc), time.perf_counter()
        outcome, error = self._measured()
        if error:
            self.console.print(f"  [red]{outcome}: {escape(error)}[/red]")
        return Outcome(
            question=self.name, size=self.size, outcome=outcome, seconds=time.perf_counter() - started, error=error,
            began=began.strftime("%Y-%m-%d %H:%M:%S"), commit=machine.commit() or "",
        )  # fmt: skip

    def _measured(self) -> Tuple[str, str]:
        tables: Dict[str, Table] = {}
        try:
            with self.console.status("") as status:
                self.bench.note = lambda doing: _show(status, doing)
                self.bench.say = lambda line: self.console.print("  " + escape(line))
                self.bench.failures.clear()
                for row in registry.answers(self.name, self.bench, self.size):
                    self._add(tables, row)
        except FAILURES as error:
            return FAILED, " ".join(str(error).split()) or type(error).__name__
        except KeyboardInterrupt:
            return INTERRUPTED, "Ctrl-C"
        return (FAILED, "; ".join(self.bench.failures)) if self.bench.failures else (MEASURED, "")

    def _add(self, tables: Dict[str, Table], row: Row) -> None:
        suffix = SUFFIXES[type(row)]
        if suffix not in tables:
            tables[suffix] = Table(self._path(suffix), type(row))
        tables[suffix].add(row)
        line = _line(row)
        if line:
            self.console.print("  " + line)

    def _path(self, suffix: str) -> Path:
        return self.folder / f"{self.name}{suffix}.csv"


def _show(status: Status, doing: str) -> None:
    status.update(f"[dim]{doing}[/dim]")


def _line(row: Row) -> Optional[str]:
    """A measurement in a line; points of learning curves are too many."""
    if isinstance(row, Sample):
        rate = row.rows_trained / row.seconds if row.seconds else 0.0
        return (
            f"{row.name:<28} {row.workload:<13} {row.segments} segments {row.rows:>7,} rows {row.configs:>3} configs"
            f" {row.seconds:>8.2f} s {rate:>10,.0f} rows/s  accuracy {short(row.accuracy)}"
        )
    if isinstance(row, Codec):
        return (
            f"{row.codec:<28} {row.state_mb:.1f} MB, ratio {row.ratio:.2f}, in {row.in_mb_s:.0f} MB/s,"
            f" out {row.out_mb_s:.0f} MB/s, a hop {row.hop_mb_s:.0f} MB/s"
        )
    return None


def _keep(folder: Path, outcome: Outcome) -> None:
    """How a question ended, beside those of earlier calls that measured others."""
    path = folder / OUTCOMES
    earlier = [other for other in read(path, Outcome) if other.question != outcome.question]
    table = Table(path, Outcome)
    for each in [*earlier, outcome]:
        table.add(each)


def _summary(outcomes: List[Outcome], console: Console) -> int:
    console.print()
    for each in outcomes:
        colour = "green" if each.outcome == MEASURED else "red"
        console.print(f"[{colour}]{each.outcome:<11}[/{colour}] {each.question:<12} {duration(each.seconds)}")
    if any(each.outcome == INTERRUPTED for each in outcomes):
        return 130
    return 0 if all(each.outcome == MEASURED for each in outcomes) else 1
