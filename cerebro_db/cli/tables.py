"""Commands that make tables in the database, working from here: pack, evaluate, predict.

Torch takes seconds to load, so what needs it is imported by the commands that do.
"""

from __future__ import annotations

from typing import Annotated, List, Optional, Tuple

import typer
from rich.table import Table
from rich.text import Text

from cerebro_db import packing
from cerebro_db.cli.output import Dsn, Json, console, print_json
from cerebro_db.cli.runs import installed_session
from cerebro_db.client import PsycopgDatabase
from cerebro_db.database import Row, one
from cerebro_db.errors import UsageError
from cerebro_db.jobs import Check, run
from cerebro_db.packing import SUMMARY, PackOptions, PackRequest, ValidationRequest
from cerebro_db.report import words
from cerebro_db.sqltext import TableName, query

Features = Annotated[
    str, typer.Option("--features", "-x", help="Feature columns, such as 'a, b, img[28,28]'; *: all but the label.")
]
MstKey = Annotated[Optional[int], typer.Option("--mst-key", help="A config of the models; default: the best.")]
Models = Annotated[str, typer.Argument(help="Model table, the output of a fit.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the app."""
    for command in (pack, evaluate, predict):
        app.command()(command)


def pack(
    source: Annotated[str, typer.Argument(help="Table of rows, one example per row.")],
    output: Annotated[str, typer.Argument(help="Packed table to make; with it <output>_summary.")],
    label: Annotated[
        Optional[str], typer.Option("--label", "-y", help="Label column; with --training, default: its label.")
    ] = None,
    features: Features = "*",
    training: Annotated[
        Optional[str], typer.Option(help="Packed training table: pack validation or test rows like it.")
    ] = None,
    buffer_size: Annotated[Optional[int], typer.Option(help="Rows per buffer at most; default: by bytes.")] = None,
    normalizing_const: Annotated[
        Optional[float], typer.Option(help="Arrays and images are divided by this; default: 1.")
    ] = None,
    num_classes: Annotated[Optional[int], typer.Option(help="Classes of the label; default: those there are.")] = None,
    segments: Annotated[
        Optional[int], typer.Option(help="Segments; default: the setting cerebro.segments, else one per core.")
    ] = None,
    seed: Annotated[Optional[int], typer.Option(help="Seed of the shuffle; default: 0.")] = None,
    nulls: Annotated[
        Optional[str], typer.Option(help="Rows with NULL: refuse, drop or impute; default: refuse.")
    ] = None,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Check, shuffle and pack a table of rows for training, or with --training for validation."""
    chosen = {
        "--normalizing-const": normalizing_const, "--num-classes": num_classes, "--segments": segments,
        "--seed": seed, "--nulls": nulls,
    }  # fmt: skip
    if training is not None:
        _refuse_with_training(list(chosen.items()))
    elif label is None:
        raise UsageError("--label is missing: name the label column, or --training to pack rows like another table")

    def job(database: PsycopgDatabase, check: Check) -> None:
        if training is not None:
            named = label or packing.training_label(database, training)
            request = ValidationRequest(source, output, named, features, training, buffer_size)
            packing.pack_validation(database, request)
            return
        options = PackOptions.checked({"seed": seed, "nulls": nulls, "segments": segments})
        scale = 1.0 if normalizing_const is None else normalizing_const
        classes = None if num_classes is None else (num_classes,)
        packing.pack_training(
            database,
            PackRequest(source, output, str(label), features, buffer_size, scale, classes, options=options),
        )

    with installed_session(dsn) as database:
        run(database, job)
        row = _packed_row(database, output)
    if json:
        print_json(row)
    else:
        left = f", {row['dropped_rows']:,} with a NULL left out" if row["dropped_rows"] else ""
        where = f"{row['buffers']:,} buffers on {row['segments']} segments"
        console.print(f"{row['output_table']}: {row['rows']:,} rows in {where}{left}", markup=False)


def evaluate(
    models: Models,
    table: Annotated[str, typer.Argument(help="Packed table, packed like the training table.")],
    output: Annotated[str, typer.Argument(help="Table to make, of one row.")],
    mst_key: MstKey = None,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Compute loss and metric of a trained config over a packed table."""
    from cerebro_db import prediction

    request = prediction.EvaluateRequest(models, table, output, mst_key=mst_key)
    with installed_session(dsn) as database:
        run(database, lambda session, check: prediction.evaluate(session, request, check))
        row = one(database, query("cli", "evaluation", output=TableName.parse(output).sql()))
    if json:
        print_json(row)
    else:
        console.print(_evaluation(row))


def predict(
    models: Models,
    table: Annotated[str, typer.Argument(help="Table of rows, one example per row.")],
    id_col: Annotated[str, typer.Argument(metavar="ID", help="Column that names a row.")],
    output: Annotated[str, typer.Argument(help="Table to make.")],
    features: Annotated[
        Optional[str], typer.Option("--features", "-x", help="Columns in training order; default: the same names.")
    ] = None,
    pred_type: Annotated[
        str,
        typer.Option("--type", help="prob: every class; response: the best; k: the k best; p < 1: those above p."),
    ] = "prob",
    mst_key: MstKey = None,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Predict the rows of a table with a trained config, into a table."""
    from cerebro_db import prediction

    request = prediction.PredictRequest(models, table, id_col, features, output, pred_type, mst_key=mst_key)
    with installed_session(dsn) as database:
        rows = run(database, lambda session, check: prediction.predict(session, request, check))
    if json:
        print_json({"output": output, "rows": rows})
    else:
        console.print(f"{output}: predictions of {rows:,} rows", markup=False)


def _refuse_with_training(chosen: List[Tuple[str, object]]) -> None:
    for name, value in chosen:
        if value is not None:
            raise UsageError(f"{name} is given, but rows packed like a training table take it from there; leave it out")


def _packed_row(database: PsycopgDatabase, output: str) -> Row:
    table = TableName.parse(output)
    return one(database, query("cli", "packed", packed=table.sql(), summary=table.suffixed(SUMMARY).sql()))


def _evaluation(row: Row) -> Table:
    names: List[str] = ["config", "rows", row["loss_type"], *row["metrics_type"]]
    table = Table(box=None, pad_edge=False)
    for name in names:
        table.add_column(Text(name), justify="right")
    values = [words.short(row["loss"]), *([words.short(row["metric"])] if row["metrics_type"] else [])]
    table.add_row(str(row["mst_key"]), f"{row['rows']:,}", *values)
    return table
