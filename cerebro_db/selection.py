"""Tables of model architectures and of configs: made, extended, read and checked.

Every architecture and every parameter string is checked when it is stored and again when it is
read, since users may make or change these tables by hand. Functions that write several statements
belong in one transaction of the caller.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from random import Random
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple

from cerebro_db import names, space
from cerebro_db.architecture import Architecture
from cerebro_db.checks import Whole
from cerebro_db.database import Database, one
from cerebro_db.engines import stored
from cerebro_db.errors import MissingError, UsageError, unknown
from cerebro_db.params import CompileParams, FitParams
from cerebro_db.space import Space, Triple
from cerebro_db.sqltext import TableName, query

_ARCH = "model_arch_table"
_SELECTION = "model_selection_table"
_ARCH_COLUMNS = ("model_id", "model_arch", "model_weights", "name", "description")
_SELECTION_COLUMNS = ("mst_key", "model_id", "compile_params", "fit_params")
_SEARCHES = ("grid", "random")

Parser = Callable[[Optional[str]], Any]


@dataclass(frozen=True)
class Config:
    """One architecture with one set of hyper-parameters, as read from a selection table."""

    mst_key: int
    model_id: int
    #: JSON text.
    model_arch: str
    #: Weights to begin with, or None for random ones.
    model_weights: Optional[bytes]
    compile_params: str
    fit_params: str


@dataclass(frozen=True)
class GridRequest:
    """The arguments of generate_model_configs, in its order."""

    model_arch_table: Optional[str]
    model_selection_table: Optional[str]
    model_id_list: Optional[List[Any]]
    compile_params_grid: Optional[str]
    fit_params_grid: Optional[str]
    search_type: Optional[str] = "grid"
    num_configs: Optional[int] = None
    random_state: Optional[int] = None


def load_model_arch(
    database: Database,
    model_arch_table: Optional[str],
    model_arch: Optional[str],
    model_weights: Optional[bytes] = None,
    name: Optional[str] = None,
    description: Optional[str] = None,
) -> int:
    """Store an architecture and give its model_id; the table is made on the first call."""
    Architecture.parse(model_arch)
    table = _locked(database, model_arch_table, _ARCH)
    if table is None:
        table = names.require_new(database, model_arch_table, _ARCH)
        database.rows(query("selection", "create_arch", table=table.sql(), stored=stored(database, "model_id")))
        database.rows(query("selection", "keep_weights_plain", table=table.sql()))
    _require_columns(database, table, _ARCH, _ARCH_COLUMNS)
    added = one(
        database,
        query("selection", "add_arch", table=table.sql()),
        model_arch=model_arch,
        model_weights=model_weights,
        name=name,
        description=description,
    )
    return int(added["model_id"])


def delete_model_arch(database: Database, model_arch_table: Optional[str], model_id: Optional[int]) -> None:
    """Delete one architecture; the table goes with its last one, as in MADlib."""
    _locked(database, model_arch_table, _ARCH)
    table = _arch_table(database, model_arch_table)
    known = _known_ids(database, table)
    if model_id not in known:
        raise MissingError(f"model_id {_shown(model_id)} is not in {_ARCH} {table}, {_listed(known)}")
    database.rows(query("selection", "delete_arch", table=table.sql()), model_id=model_id)
    if len(known) == 1:
        database.rows(query("selection", "drop", table=table.sql()))


def load_model_selection_table(
    database: Database,
    model_arch_table: Optional[str],
    model_selection_table: Optional[str],
    model_id_list: Optional[Sequence[Any]],
    compile_params_list: Optional[Sequence[Any]],
    fit_params_list: Optional[Sequence[Any]],
) -> int:
    """Store every combination of the three lists, equal ones once; gives the number of configs."""
    arch_table = _arch_table(database, model_arch_table)
    model_ids = _model_ids(database, arch_table, model_id_list)
    compiled = _texts(compile_params_list, "compile_params_list", CompileParams.parse)
    fits = _texts(fit_params_list, "fit_params_list", FitParams.parse)
    space.require_few(len(model_ids) * len(compiled) * len(fits))
    _locked(database, model_selection_table, _SELECTION)
    table = names.require_new(database, model_selection_table, _SELECTION, ("_summary",))
    triples = space.fresh(itertools.product(model_ids, compiled, fits), set())
    _create(database, table, arch_table)
    _add(database, table, triples, first_key=1)
    return len(triples)


def generate_model_configs(database: Database, request: GridRequest) -> int:
    """Store the points of a grid, or points drawn by chance; gives the number of configs added.

    An existing selection table over the same architectures is extended; what it holds already is
    not stored twice. The same `random_state` draws the same configs.
    """
    search = _search_type(request)
    arch_table = _arch_table(database, request.model_arch_table)
    model_ids = _model_ids(database, arch_table, request.model_id_list)
    points = Space.parse(request.compile_params_grid, request.fit_params_grid, search == "random")
    table = _locked(database, request.model_selection_table, _SELECTION)
    existing = {} if table is None else _extended(database, table, arch_table)
    taken = {_meaning(table, key, triple) for key, triple in existing.items()}
    if search == "grid":
        triples = space.grid_search(points, model_ids, taken)
    else:
        count = Whole()(request.num_configs, "num_configs of a random search")
        triples = space.random_search(points, model_ids, count, Random(request.random_state), taken)  # noqa: S311
    if table is None:
        table = names.require_new(database, request.model_selection_table, _SELECTION, ("_summary",))
        _create(database, table, arch_table)
    _add(database, table, triples, first_key=max(existing, default=0) + 1)
    return len(triples)


def read_selection(database: Database, model_selection_table: Optional[str]) -> List[Config]:
    """The configs of a selection table in order of mst_key, checked, with their architectures.

    Tables made by hand will do. Raises MissingError for a table, column, summary or model that
    does not exist, UsageError for no config at all, keys that are not unique, or wrong parameters.
    """
    table = names.require(database, model_selection_table, _SELECTION)
    arch_table = _summarised(database, table)
    triples = _configs(database, table)
    if not triples:
        raise UsageError(f"{_SELECTION} {table} has no configs; add some by generate_model_configs")
    models = _models(database, arch_table, {triple[0] for triple in triples.values()})
    for key, triple in triples.items():
        _meaning(table, key, triple)
    return [Config(key, triple[0], *models[triple[0]], *triple[1:]) for key, triple in triples.items()]


def _locked(database: Database, text: Optional[str], what: str) -> Optional[TableName]:
    """The table if it exists, after all other writers of a table of that name are done."""
    table = TableName.parse(text, what)
    database.rows(query("selection", "lock"), name=table.name)
    return names.find(database, table)


def _arch_table(database: Database, text: Optional[str], what: str = _ARCH) -> TableName:
    table = names.require(database, text, what)
    _require_columns(database, table, what, _ARCH_COLUMNS[:3])
    return table


def _require_columns(database: Database, table: TableName, what: str, expected: Iterable[str]) -> None:
    present = names.columns(database, table)
    missing = [column for column in expected if column not in present]
    if missing:
        raise MissingError(
            f"{what} {table} lacks the column{'s' * (len(missing) > 1)} {', '.join(missing)}; "
            f"expected {', '.join(expected)}"
        )


def _known_ids(database: Database, arch_table: TableName) -> List[int]:
    return [row["model_id"] for row in database.rows(query("selection", "arch_ids", table=arch_table.sql()))]


def _model_ids(database: Database, arch_table: TableName, wanted: Optional[Sequence[Any]]) -> List[int]:
    """The list, each id once, all of them models of the table."""
    if not wanted:
        raise UsageError(f"model_id_list is {_shown(wanted)}, expected ids such as array[1, 2]")
    known = _known_ids(database, arch_table)
    for model_id in wanted:
        if model_id not in known:
            shown = f"model_id {_shown(model_id)} of model_id_list"
            raise MissingError(f"{shown} is not in {_ARCH} {arch_table}, {_listed(known)}")
    return list(dict.fromkeys(wanted))


def _texts(values: Optional[Sequence[Any]], what: str, parse: Parser) -> List[str]:
    """The parameter strings of a list, stripped, each of them checked."""
    if not values:
        raise UsageError(f"{what} is {_shown(values)}, expected a list of parameter strings")
    for place, text in enumerate(values, 1):
        _checked(parse, text, f"{what}[{place}]")
    return [text.strip() for text in values]


def _checked(parse: Parser, text: Optional[str], where: str) -> Any:
    try:
        return parse(text)
    except UsageError as error:
        raise UsageError(f"{where} {_shown(text)}: {error}") from error


def _meaning(table: Optional[TableName], key: int, triple: Triple) -> space.Meaning:
    where = f"mst_key {key} of {_SELECTION} {table}:"
    compiled = _checked(CompileParams.parse, triple[1], f"{where} compile_params")
    return triple[0], compiled, _checked(FitParams.parse, triple[2], f"{where} fit_params")


def _search_type(request: GridRequest) -> str:
    """"grid" or "random", of which any beginning will do; checks the arguments that go with it."""
    given = "grid" if request.search_type is None else request.search_type
    search = next((known for known in _SEARCHES if given and known.startswith(given.lower())), None)
    if search is None:
        raise unknown("search_type", given, _SEARCHES)
    if search == "random" and request.num_configs is None:
        raise UsageError("num_configs is NULL, expected the number of configs that a random search draws")
    for argument in ("num_configs", "random_state"):
        if search == "grid" and getattr(request, argument) is not None:
            raise UsageError(
                f"{argument} is given, but a grid search takes every point; use search_type 'random'"
            )
    return search


def _extended(database: Database, table: TableName, arch_table: TableName) -> Dict[int, Triple]:
    """The configs of a table that is to be extended."""
    other = _summarised(database, table)
    if other != arch_table:
        raise UsageError(
            f"{_SELECTION} {table} exists and its models are in {other}, not in {arch_table}; "
            "name that table, or choose another name for the new one"
        )
    return _configs(database, table)


def _summarised(database: Database, table: TableName) -> TableName:
    """The table of models that the summary of a selection table names."""
    _require_columns(database, table, _SELECTION, _SELECTION_COLUMNS)
    what = f"summary of {_SELECTION}"
    summary = names.require(database, str(table.suffixed("_summary")), what)
    _require_columns(database, summary, what, ("model_arch_table",))
    found = [row[_ARCH] for row in database.rows(query("selection", "summary_tables", summary=summary.sql()))]
    if len(found) != 1:
        shown = ", ".join(map(_shown, found)) or "none"
        raise UsageError(f"{what} {summary} names {shown}, expected exactly one {_ARCH}")
    _refuse_objects(database, summary, what)
    return _arch_table(database, found[0], f"{_ARCH} named by {summary}")


def _refuse_objects(database: Database, summary: TableName, what: str) -> None:
    if "object_table" in names.columns(database, summary):
        named = database.rows(query("selection", "object_tables", summary=summary.sql()))
        if named:
            raise UsageError(
                f"{what} {summary} names the object_table {named[0]['object_table']!r}, but custom functions "
                "are not supported; set it to NULL and use built-in losses and metrics"
            )


def _configs(database: Database, table: TableName) -> Dict[int, Triple]:
    found: Dict[int, Triple] = {}
    for row in database.rows(query("selection", "configs", table=table.sql())):
        if None in row.values():
            raise UsageError(f"{_SELECTION} {table} has NULL in the row {dict(row)}, expected no NULL")
        where = f"in {_SELECTION} {table}"
        key, model_id = (_integer(row[column], f"{column} {where}") for column in ("mst_key", "model_id"))
        if key in found:
            raise UsageError(f"mst_key {key} is twice {where}, expected unique keys")
        found[key] = (model_id, row["compile_params"], row["fit_params"])
    return found


def _integer(text: str, what: str) -> int:
    if not text.strip().lstrip("-").isdigit():
        raise UsageError(f"{what} is {text!r}, expected an integer")
    return int(text)


def _models(
    database: Database, arch_table: TableName, model_ids: Iterable[int]
) -> Dict[int, Tuple[str, Optional[bytes]]]:
    wanted = sorted(model_ids)
    sql = query("selection", "archs", table=arch_table.sql())
    models = {row["model_id"]: row for row in database.rows(sql, model_ids=wanted)}
    for model_id in wanted:
        if model_id not in models:
            known = _listed(_known_ids(database, arch_table))
            raise MissingError(f"model_id {model_id} is not in {_ARCH} {arch_table}, {known}")
        _checked(Architecture.parse, models[model_id]["model_arch"], f"model_id {model_id} of {arch_table}")
    return {key: (row["model_arch"], row["model_weights"]) for key, row in models.items()}


def _create(database: Database, table: TableName, arch_table: TableName) -> None:
    summary = table.suffixed("_summary").sql()
    everywhere = stored(database)  # small, and unique by two sets of columns, which a spread table cannot be
    database.rows(query("selection", "create_selection", table=table.sql(), stored=everywhere))
    database.rows(query("selection", "create_summary", summary=summary, stored=everywhere))
    database.rows(query("selection", "add_summary", summary=summary), model_arch_table=str(arch_table))


def _add(database: Database, table: TableName, triples: Sequence[Triple], first_key: int) -> None:
    if triples:
        model_ids, compiled, fits = zip(*triples)
        database.rows(
            query("selection", "add_configs", table=table.sql()),
            mst_keys=list(range(first_key, first_key + len(triples))),
            model_ids=list(model_ids),
            compile_params=list(compiled),
            fit_params=list(fits),
        )
    database.notice(f"{len(triples)} config{'s' * (len(triples) != 1)} added to {table}")


def _listed(known: Sequence[int]) -> str:
    return f"which holds {', '.join(map(str, known))}" if known else "which holds no models"


def _shown(value: Any) -> str:
    return "NULL" if value is None else repr(value)
