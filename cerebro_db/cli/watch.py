"""Show how far a call is that trains, from a second session."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import List, Optional, Protocol, Set, Tuple

import psycopg2
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from cerebro_db.calls import Call, terminable
from cerebro_db.database import Database, Row, one
from cerebro_db.report import accounting, words
from cerebro_db.report.look import Look
from cerebro_db.report.read import read_run
from cerebro_db.sqltext import query

#: Between two looks at the progress [s].
POLL_SECONDS = 0.5
#: Configs on the live screen; the best ones.
SCREEN_CONFIGS = 16


@dataclass(frozen=True)
class Snapshot:
    """A run at one moment."""

    #: A row of the view progress.
    progress: Row
    look: Look


class Display(Protocol):
    """Shows snapshots to a person; `show(None)` means the run has not begun."""

    def show(self, snapshot: Optional[Snapshot]) -> None: ...

    def close(self) -> None: ...


class Watch:
    """Follows a call that coordinates a run."""

    def __init__(self, database: Database, call: Call) -> None:
        #: None until the call has taken up a run.
        self.run_id: Optional[int] = None
        self._database = database
        self._call = call
        self._blind = False

    def follow(self, display: Display, poll_seconds: float = POLL_SECONDS) -> Row:
        """Show progress until the call ends and give its row; what interrupts that, such as Ctrl-C, cancels it."""
        try:
            with terminable():
                while not self._call.ended(poll_seconds):
                    self._show(display)
            return self._ended(display)
        except BaseException:
            with suppress(psycopg2.Error):
                self._find_run()  # while it is still to be found by its session
            self._call.cancel()
            raise
        finally:
            display.close()

    def _ended(self, display: Display) -> Row:
        """Show the end, also of a run that was over before anybody looked."""
        if self.run_id is not None:
            self._show(display)
            return self._call.result()
        row = self._call.result()
        self.run_id = row["run_id"]
        self._show(display)
        return row

    def _show(self, display: Display) -> None:
        """A watcher that loses its session goes blind; the run does not end with it."""
        if self._blind:
            return
        try:
            display.show(self.snapshot())
        except (psycopg2.OperationalError, psycopg2.InterfaceError):
            self._blind = True

    def snapshot(self) -> Optional[Snapshot]:
        self._find_run()
        return None if self.run_id is None else take_snapshot(self._database, self.run_id)

    def _find_run(self) -> None:
        if self.run_id is None:
            found = one(self._database, query("cli", "run_of_session"), pid=self._call.pid)
            self.run_id = found["run_id"]


def take_snapshot(database: Database, run_id: int) -> Snapshot:
    """How far a run is; raises MissingError when it is not the caller's."""
    look = Look.of(read_run(database, run_id, with_hops=False))
    return Snapshot(one(database, query("cli", "progress"), run_id=run_id), look)


# -- a terminal ------------------------------------------------------------------------------------


class LiveDisplay:
    """A screen that is drawn over itself."""

    def __init__(self, console: Console) -> None:
        self._live = Live(waiting(), console=console, refresh_per_second=8, transient=False)
        self._live.start()

    def show(self, snapshot: Optional[Snapshot]) -> None:
        self._live.update(waiting() if snapshot is None else screen(snapshot))

    def close(self) -> None:
        self._live.stop()


def waiting() -> Text:
    return Text("checking tables and configs, starting sessions ...", style="dim")


def screen(snapshot: Snapshot) -> Group:
    """Bar, speed and the configs from best to worst."""
    progress, look = snapshot.progress, snapshot.look
    title = Text.assemble(
        (f"run {progress['run_id']}", "bold"), f"  {progress['name'] or look.record.run.source_table}  ",
        (progress["status"], "green" if progress["status"] == "finished" else "cyan"),
    )  # fmt: skip
    bar = Table.grid(padding=(0, 2))
    bar.add_row(
        ProgressBar(total=max(progress["hops_total"], 1), completed=progress["hops_done"], width=36),
        f"{progress['percent']:.0f} %",
        pace(progress),
    )
    return Group(title, bar, standings(look))


def pace(progress: Row) -> str:
    """`79 / 128 hops   73,468 rows/s   11.2 s   about 7.0 s left`."""
    facts = [
        f"{progress['hops_done']} / {progress['hops_total']} hops",
        f"{progress['rows_per_second']:,.0f} rows/s",
        words.duration(progress["seconds"]),
    ]
    if progress["seconds_left"]:
        facts.append(f"about {words.duration(progress['seconds_left'])} left")
    return "   ".join(facts)


def standings(look: Look) -> Table:
    """The configs from best to worst; the first is marked."""
    own = [name for name in look.varied if name != "model"]
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for name in ("", "config", "model", *own, "epochs", look.deciding_name, "status"):
        table.add_column(name, justify="right" if name in own or name == look.deciding_name else "left")
    for standing in look.board[:SCREEN_CONFIGS]:
        config = standing.config
        table.add_row(
            *map(Text, (
                ">" if standing.rank == 1 else "", f"#{config.mst_key}", config.model,
                *(config.params.get(name, "–") for name in own),
                f"{standing.epochs}/{look.record.run.num_iterations}",
                words.short(look.deciding_value(standing)), config.status,
            )),
            style="bold" if standing.rank == 1 else "red" if config.error else "",
        )  # fmt: skip
    if len(look.board) > SCREEN_CONFIGS:
        table.add_row("", Text(f"... {len(look.board) - SCREEN_CONFIGS} more", style="dim"))
    return table


# -- a file or a pipe ------------------------------------------------------------------------------


class LineDisplay:
    """One plain line for every tenth of the hops and for every finished epoch."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._told = Told()

    def show(self, snapshot: Optional[Snapshot]) -> None:
        if snapshot is not None:
            lines, self._told = news(self._told, snapshot)
            for line in lines:
                self._console.print(line, markup=False)

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class Told:
    """What was printed already."""

    tenths: int = -1
    #: (mst_key, epoch) of each.
    epochs: frozenset[Tuple[int, int]] = frozenset()


def news(told: Told, snapshot: Snapshot) -> Tuple[List[str], Told]:
    """The lines to print now, and what has been told after them."""
    progress, look = snapshot.progress, snapshot.look
    found: Set[Tuple[int, int]] = {(epoch.mst_key, epoch.epoch) for epoch in look.record.epochs}
    lines = [
        _epoch_line(look, key, epoch) for key, epoch in sorted(found - told.epochs, key=lambda p: p[::-1])
    ]
    tenths = int(progress["percent"]) // 10
    if tenths > told.tenths:
        lines.append(_tenth_line(progress, look))
    return lines, Told(max(tenths, told.tenths), told.epochs | found)


def _tenth_line(progress: Row, look: Look) -> str:
    best = next(iter(look.ranked), None)
    line = f"{progress['percent']:5.1f} %  {pace(progress)}"
    if best is None:
        return line
    return (
        f"{line}   best #{best.config.mst_key}: {look.deciding_name} {words.short(look.deciding_value(best))}"
    )


def _epoch_line(look: Look, mst_key: int, number: int) -> str:
    epoch = next(epoch for epoch in look.epochs(mst_key) if epoch.epoch == number)
    names = [name for name in look.varied if name != "model"]
    config = next(config for config in look.record.configs if config.mst_key == mst_key)
    values = [f"loss {words.short(accounting.seen_loss(epoch))}"]
    if accounting.seen_metric(epoch) is not None:
        values.insert(0, f"{look.metric_name} {words.short(accounting.seen_metric(epoch))}")
    epochs = look.record.run.num_iterations
    return f"         epoch {number}/{epochs}  {words.label(config, names)}: {look.kind} {', '.join(values)}"
