"""The command configs: architectures and a grid of parameters from a file, as a table of configs."""

from __future__ import annotations

import json as json_text
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Dict, List, Optional

import typer

from cerebro_db import names, selection
from cerebro_db.cli.output import Dsn, Json, console, print_json
from cerebro_db.cli.runs import installed_session
from cerebro_db.database import Database
from cerebro_db.errors import UsageError, unknown
from cerebro_db.jobs import run
from cerebro_db.settings import from_toml

_GRID = ("compile_params_grid", "fit_params_grid", "search_type", "num_configs", "random_state")
_LISTS = ("compile_params_list", "fit_params_list")
_KEYS = ("architectures", *_GRID, *_LISTS)


@dataclass(frozen=True)
class Wanted:
    """What a file asks for."""

    #: Each with its `name` and `description`, where it has them.
    architectures: List[Dict[str, Any]]
    #: The other keys of the file.
    params: Dict[str, Any]


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    app.command()(configs)


def configs(
    file: Annotated[
        Path,
        typer.Argument(
            help="JSON or TOML: architectures, a list, each with its name; and compile_params_grid and fit_params_grid "
            "(lists of choices), or compile_params_list and fit_params_list."
        ),
    ],
    table: Annotated[str, typer.Argument(metavar="SELECTION", help="Model selection table to make.")],
    arch_table: Annotated[
        Optional[str], typer.Option(help="Model architecture table to make; default: <SELECTION>_arch.")
    ] = None,
    search: Annotated[Optional[str], typer.Option(help="grid: every point; random: --num-configs of them.")] = None,
    num_configs: Annotated[Optional[int], typer.Option(help="Configs that a random search draws.")] = None,
    random_state: Annotated[Optional[int], typer.Option(help="Seed of a random search.")] = None,
    dsn: Dsn = None,
    json: Json = False,
) -> None:
    """Store architectures, and every config of a grid of parameters or some drawn by chance."""
    given = {"search_type": search, "num_configs": num_configs, "random_state": random_state}
    wanted = read(file, {key: value for key, value in given.items() if value is not None})
    with installed_session(dsn) as database:
        made = run(database, lambda session, check: store(session, wanted, table, arch_table))
    if json:
        print_json(made)
    else:
        console.print(
            f"{made['selection_table']}: {made['configs']} configs of {made['models']} models in {made['arch_table']}",
            markup=False,
        )


def read(file: Path, given: Dict[str, Any]) -> Wanted:
    """Read a file; what is `given` on the command line counts more. Raises UsageError for what is not known."""
    raw = {**_parsed(file), **given}
    for key in raw:
        if key not in _KEYS:
            raise unknown(f"key of {file}", key, _KEYS)
    models = raw.pop("architectures", None)
    if not isinstance(models, list) or not models or not all(isinstance(model, dict) for model in models):
        raise UsageError(f'{file} has architectures {models!r}, expected a list such as [{{"model": "mlp"}}]')
    mixed = [key for key in raw if key in _GRID] if any(key in raw for key in _LISTS) else []
    if mixed:
        raise UsageError(f"{file}: {mixed[0]} is given beside {' and '.join(_LISTS)}; give a grid or lists")
    return Wanted(models, raw)


def store(database: Database, wanted: Wanted, table: str, arch_table: Optional[str]) -> Dict[str, Any]:
    """Make both tables; one transaction of the caller. Gives their names and how much is in them."""
    selected = names.require_new(database, table, "model_selection_table", ("_summary",))
    models = str(names.require_new(database, arch_table or str(selected.suffixed("_arch")), "model_arch_table"))
    ids = [_load(database, models, dict(model)) for model in wanted.architectures]
    params = {key: _text(value) for key, value in wanted.params.items()}
    if any(key in params for key in _LISTS):
        lists = (params.get(key) for key in _LISTS)
        count = selection.load_model_selection_table(database, models, str(selected), ids, *lists)
    else:
        grids = {"compile_params_grid": None, "fit_params_grid": None, **params}
        count = selection.generate_model_configs(
            database, selection.GridRequest(models, str(selected), list(ids), **grids)
        )
    return {"selection_table": str(selected), "arch_table": models, "models": len(ids), "configs": count}


def _load(database: Database, table: str, model: Dict[str, Any]) -> int:
    name, description = model.pop("name", None), model.pop("description", None)
    return selection.load_model_arch(database, table, json_text.dumps(model), None, name, description)


def _text(value: Any) -> Any:
    """Parameters as the functions take them: JSON text, or a list of such."""
    if isinstance(value, list):
        return [_text(item) for item in value]
    return json_text.dumps(value) if isinstance(value, dict) else value


def _parsed(file: Path) -> Dict[str, Any]:
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"file {file} cannot be read: {error}") from error
    try:
        raw = from_toml(text) if file.suffix.lower() == ".toml" else json_text.loads(text)
    except ValueError as error:  # both parsers raise kinds of it
        raise UsageError(f"file {file} is not valid: {error}; expected TOML in *.toml, else JSON") from error
    if not isinstance(raw, dict):
        raise UsageError(f"file {file} holds {type(raw).__name__}, expected an object with {', '.join(_KEYS)}")
    return raw
