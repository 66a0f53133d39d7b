"""Commands about data and runs: load, fit, status, resume, cancel, report."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Callable, Dict, List, Optional

import psycopg2
import typer
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from cerebro_db import calls, datasets, runs
from cerebro_db.cli.output import Dsn, Json, configured, console, error_line, notice, print_json, stderr
from cerebro_db.cli.watch import Display, LineDisplay, LiveDisplay, Watch, screen, take_snapshot
from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.database import Row
from cerebro_db.datasets import Loaded
from cerebro_db.errors import CancelledError, CerebroError, UsageError, unknown
from cerebro_db.options import STRATEGIES, as_object
from cerebro_db.planning import FitRequest
from cerebro_db.report import words, write_report
from cerebro_db.sqltext import query

#: Exit code after Ctrl-C: 128 + SIGINT, as shells count.
INTERRUPTED = 130
#: The same for SIGTERM.
TERMINATED = 143
#: Columns of a table that goes to a file or a pipe.
PIPE_COLUMNS = 200
LOADERS = {"fashion-mnist": datasets.load_fashion_mnist, "flights": datasets.load_flights}
FIT_CALL = "select * from madlib_mop_fit("
#: Arguments of madlib_mop_fit, by the name of their value here.
FIT_ARGUMENTS = {
    "source": "source_table", "output": "model_output_table", "selection": "model_selection_table",
    "iterations": "num_iterations", "validation": "validation_table", "name": "name",
    "description": "description", "strategy": "strategy", "options": "options",
}  # fmt: skip
#: Messages of the run that the display has shown already.
_SHOWN = re.compile(r"\[\s*[\d.]+%\] config |run \d+: \d+ configs?, ")

RunId = Annotated[int, typer.Argument(metavar="RUN", help="Number of the run, see 'cerebro-db status'.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the app."""
    for command in (load, fit, status, resume, cancel, report):
        app.command()(command)


def load(
    name: Annotated[str, typer.Argument(help=f"One of: {', '.join(LOADERS)}.")],
    schema: Annotated[
        Optional[str], typer.Option(help="Schema to load into; default: the first of the path.")
    ] = None,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Load a public data set into tables, or reuse what is there."""
    if name not in LOADERS:
        raise unknown("data set", name, LOADERS)
    with connect(dsn, on_notice=notice) as database:
        loaded = LOADERS[name](database, schema)
    if json:
        print_json([vars(table) for table in loaded])
    else:
        _print(_loaded_table(loaded))


def fit(
    context: typer.Context,
    source: Annotated[str, typer.Argument(help="Table of rows, packed or not.")],
    output: Annotated[
        str, typer.Argument(help="Model table to make; with it <output>_info and <output>_summary.")
    ],
    selection: Annotated[str, typer.Argument(help="Model selection table: the configs.")],
    iterations: Annotated[int, typer.Option("--iterations", "-n", help="Epochs.")] = 1,
    validation: Annotated[Optional[str], typer.Option(help="Table to validate on after each epoch.")] = None,
    strategy: Annotated[Optional[str], typer.Option(help=f"One of {', '.join(STRATEGIES)}.")] = None,
    name: Annotated[Optional[str], typer.Option(help="A name for the run.")] = None,
    description: Annotated[Optional[str], typer.Option(help="A sentence about the run.")] = None,
    options: Annotated[Optional[str], typer.Option(help="Settings of the run as a JSON object.")] = None,
    echo: Annotated[bool, typer.Option("--echo", help="Show the SQL first.")] = False,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Train all configs of a selection table and watch them; Ctrl-C stops, 'resume' goes on."""
    values: Dict[str, Any] = {
        "source": source, "output": output, "selection": selection, "iterations": iterations,
        "validation": validation, "strategy": strategy, "name": name, "description": description,
    }  # fmt: skip
    asked = FitRequest(**{FIT_ARGUMENTS[key]: value for key, value in values.items()})
    request = configured(context).below(asked, _json_object(options))
    if echo:
        stderr.print(shown_fit({**values, "options": request.options}), markup=False)
    _watched(dsn, json, lambda database: calls.fit(database, request))


def shown_fit(values: Dict[str, Any]) -> str:
    """The call of madlib_mop_fit as a person types it, for showing; when it runs, values are bound."""
    given = {name: values[key] for key, name in FIT_ARGUMENTS.items() if values[key] is not None}
    lines = [f"{name} := {_literal(value)}" for name, value in given.items()]
    return "\n".join([FIT_CALL, "    " + "\n  , ".join(lines) + ");"])


def _literal(value: Any) -> str:
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"


def resume(run_id: RunId, dsn: Dsn = None, json: Json = False) -> None:
    """Go on with a run that was killed, cancelled or failed; no finished hop runs again."""
    _watched(dsn, json, lambda database: calls.resume(database, run_id))


def cancel(run_id: RunId, dsn: Dsn = None, json: Json = False) -> None:
    """End a run of another session or process, within seconds; 'resume' goes on."""
    with installed_session(dsn) as database:
        runs.cancel(database, run_id)
    if json:
        print_json({"run_id": run_id, "cancelled": True})
    else:
        typer.echo(f"run {run_id} is being cancelled; go on with: cerebro-db resume {run_id}")


def status(
    run_id: Annotated[
        Optional[int], typer.Argument(metavar="[RUN]", help="A run; default: all of yours.")
    ] = None,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Show how far a run is with its configs, or one line for each of your runs."""
    with installed_session(dsn) as database:
        snapshot = None if run_id is None else take_snapshot(database, run_id)
        rows = database.rows(query("cli", "progress"), run_id=run_id)
    if json:
        print_json(rows if snapshot is None else rows[0])
    elif snapshot is not None:
        _print(screen(snapshot))
    else:
        _print(_runs_table(rows) if rows else "no runs yet")


def report(
    run_id: RunId,
    output: Annotated[
        Optional[Path], typer.Option("--output", "-o", help="File; default: ./cerebro-run-RUN.html")
    ] = None,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Write one HTML page about a run: leaderboard, curves, hops, and where the time went."""
    target = output or Path(f"cerebro-run-{run_id}.html")
    if not target.absolute().parent.is_dir():
        raise UsageError(f"folder {target.absolute().parent} does not exist; give another --output")
    with installed_session(dsn) as database:
        path = write_report(database, run_id, target)
    if json:
        print_json({"run_id": run_id, "path": path})
    else:
        typer.echo(path)


def _watched(dsn: Optional[str], json: bool, begin: Callable[[PsycopgDatabase], calls.Call]) -> None:
    """Begin a call that coordinates a run; its progress goes to stderr and its row to stdout."""
    notes: List[str] = []
    with installed_session(dsn) as watcher, connect(dsn, on_notice=notes.append) as worker:
        watch = Watch(watcher, begin(worker))
        try:
            row = watch.follow(_display())
        except (KeyboardInterrupt, SystemExit, CancelledError) as error:
            if isinstance(error, CancelledError):
                error_line(error)
            stderr.print(_how_to_go_on("cancelled", watch.run_id), markup=False)
            raise typer.Exit(TERMINATED if isinstance(error, SystemExit) else INTERRUPTED) from None
        except (CerebroError, psycopg2.Error):
            if watch.run_id is not None:
                stderr.print(_how_to_go_on("stopped", watch.run_id), markup=False)
            raise
        finally:
            for note in notes:
                if not _SHOWN.match(note):
                    notice(note)
    _show_result(row, json)


def _display() -> Display:
    return LiveDisplay(stderr) if stderr.is_terminal else LineDisplay(stderr)


def _how_to_go_on(what: str, run_id: Optional[int]) -> str:
    if run_id is None:
        return f"{what} before training began"
    return f"run {run_id} was {what}; its finished hops are kept, go on with: cerebro-db resume {run_id}"


def _show_result(row: Row, json: bool) -> None:
    if json:
        print_json(row)
        return
    best = f", best is config {row['best_mst_key']} with {words.short(row['best_metric'])}"
    configs = f"{row['configs']} config{'s' * (row['configs'] != 1)}"
    console.print(
        f"run {row['run_id']} {row['status']}: {configs} in {words.duration(row['seconds'])}"
        + (best if row["best_mst_key"] is not None else ""),
        markup=False,
    )


def _print(shown: RenderableType) -> None:
    """A file or a pipe has no width: there, lines are as long as they are."""
    wide = console if console.is_terminal else Console(width=PIPE_COLUMNS, highlight=False)
    wide.print(shown)


def installed_session(dsn: Optional[str]) -> PsycopgDatabase:
    """A session in a database that has cerebro; raises SetupError otherwise."""
    database = connect(dsn, on_notice=notice)
    try:
        calls.require_installed(database)
    except CerebroError:
        database.close()
        raise
    return database


def _json_object(text: Optional[str]) -> Optional[str]:
    """Options as they were typed, once they are known to be a JSON object."""
    try:
        as_object(text)
    except UsageError:
        raise UsageError(f"--options is {text!r}, expected a JSON object such as '{{\"seed\": 1}}'") from None
    return text


def _loaded_table(loaded: List[Loaded]) -> Table:
    table = Table("table", box=None, pad_edge=False)
    table.add_column("rows", justify="right")
    table.add_column("without label", justify="right")
    table.add_column("")
    for item in loaded:
        state = "loaded" if item.created else "was there, reused"
        table.add_row(Text(item.table), f"{item.rows:,}", f"{item.unlabelled:,}", state)
    return table


def _runs_table(rows: List[Row]) -> Table:
    table = Table("run", "name", "status", box=None, pad_edge=False)
    for name in ("hops", "%", "rows/s", "seconds", "best config", "metric", "loss"):
        table.add_column(name, justify="right")
    for row in rows:
        hops = f"{row['hops_done']}/{row['hops_total']}"
        cells = [
            str(row["run_id"]), row["name"] or "", row["status"], hops, f"{row['percent']:.0f}",
            f"{row['rows_per_second']:,.0f}", f"{row['seconds']:.1f}", str(row["best_mst_key"] or "–"),
            words.short(row["best_metric"]), words.short(row["best_loss"]),
        ]  # fmt: skip
        table.add_row(*map(Text, cells))
    return table
