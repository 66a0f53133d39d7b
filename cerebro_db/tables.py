"""Packing, configs and predictions from Python: what the SQL functions of these names do, done in this process.

    cerebro_db.pack("dbname=shop", "orders", "orders_packed", "returned", "amount, country")

Nothing but tables is needed on the server, so this works on managed PostgreSQL too. `server` is as in `fit`.
Each call is all or nothing. Wrong arguments raise UsageError and its kin before anything is made; no table
is ever overwritten.
"""

from __future__ import annotations

import json
from typing import Any, Dict, Mapping, Optional, Sequence, Union

import pandas as pd

from cerebro_db import packing, selection
from cerebro_db.client import PsycopgDatabase
from cerebro_db.connections import Server, perform, table_frame
from cerebro_db.errors import unknown
from cerebro_db.jobs import Check
from cerebro_db.packing import SUMMARY, PackOptions, PackRequest, ValidationRequest
from cerebro_db.sqltext import TableName

#: Parameters as text (a MADlib string, JSON) or as a mapping.
Params = Union[str, Mapping[str, Any]]


def pack(
    server: Server, source: str, output: str, dependent_varname: str, independent_varname: str = "*", **arguments: Any
) -> pd.DataFrame:
    """Pack a training table: the row of `<output>_summary`.

    `arguments` are buffer_size, normalizing_const, num_classes, distribution_rules and options (a dict of seed,
    nulls and segments) of training_preprocessor_dl; num_classes may be a number.
    """
    values = _known(arguments, ("buffer_size", "normalizing_const", "num_classes", "distribution_rules", "options"))
    options = values.pop("options", None)
    classes = values.pop("num_classes", None)
    parsed = PackOptions.checked(dict(options)) if isinstance(options, Mapping) else PackOptions.parse(options)
    request = PackRequest(
        source, output, dependent_varname, independent_varname, **values, options=parsed,
        num_classes=(classes,) if isinstance(classes, int) else None if classes is None else tuple(classes),
    )  # fmt: skip
    perform(server, lambda database, check: packing.pack_training(database, request))
    return table_frame(server, TableName.parse(output).suffixed(SUMMARY))


def pack_validation(
    server: Server,
    source: str,
    output: str,
    training: str,
    dependent_varname: Optional[str] = None,
    independent_varname: str = "*",
    **arguments: Any,
) -> pd.DataFrame:
    """Pack a table like the packed training table `training`: the row of `<output>_summary`.

    The label is the training table's unless named. `arguments` are buffer_size and distribution_rules of
    validation_preprocessor_dl.
    """
    values = _known(arguments, ("buffer_size", "distribution_rules"))

    def job(database: PsycopgDatabase, check: Check) -> None:
        label = dependent_varname or packing.training_label(database, training)
        request = ValidationRequest(source, output, label, independent_varname, training, **values)
        packing.pack_validation(database, request)

    perform(server, job)
    return table_frame(server, TableName.parse(output).suffixed(SUMMARY))


def load_model_arch(
    server: Server,
    model_arch_table: str,
    model_arch: Params,
    model_weights: Optional[bytes] = None,
    name: Optional[str] = None,
    description: Optional[str] = None,
) -> int:
    """Store an architecture (JSON) and give its model_id; the table is made on the first call."""
    text = _text(model_arch)
    return perform(
        server,
        lambda database, check: selection.load_model_arch(
            database, model_arch_table, text, model_weights, name, description
        ),
    )


def load_model_selection_table(
    server: Server,
    model_arch_table: str,
    model_selection_table: str,
    model_id_list: Sequence[int],
    compile_params_list: Sequence[Params],
    fit_params_list: Sequence[Params],
) -> pd.DataFrame:
    """Store every combination of the three lists as a config: the new table."""
    lists = ([_text(each) for each in compile_params_list], [_text(each) for each in fit_params_list])
    perform(
        server,
        lambda database, check: selection.load_model_selection_table(
            database, model_arch_table, model_selection_table, list(model_id_list), *lists
        ),
    )
    return table_frame(server, TableName.parse(model_selection_table))


def generate_model_configs(
    server: Server,
    model_arch_table: str,
    model_selection_table: str,
    model_id_list: Sequence[int],
    compile_params_grid: Params,
    fit_params_grid: Params,
    **arguments: Any,
) -> pd.DataFrame:
    """Store the points of a grid, or points drawn by chance, as configs: the table, which may exist and is extended.

    `arguments` are search_type ('grid' or 'random'), num_configs and random_state.
    """
    values = _known(arguments, ("search_type", "num_configs", "random_state"))
    grids = (_text(compile_params_grid), _text(fit_params_grid))
    request = selection.GridRequest(model_arch_table, model_selection_table, list(model_id_list), *grids, **values)
    perform(server, lambda database, check: selection.generate_model_configs(database, request))
    return table_frame(server, TableName.parse(model_selection_table))


def evaluate(
    server: Server, models: str, table: str, output: str, mst_key: Optional[int] = None
) -> pd.DataFrame:
    """Evaluate one config, or the best, on a packed table: the row of the table `output`, which is made."""
    from cerebro_db import prediction  # loads torch

    request = prediction.EvaluateRequest(models, table, output, mst_key=mst_key)
    perform(server, lambda database, check: prediction.evaluate(database, request, check))
    return table_frame(server, TableName.parse(output))


def predict(server: Server, models: str, table: str, id_col: str, output: str, **arguments: Any) -> pd.DataFrame:
    """Predict raw rows with one config, or the best: the rows of the table `output`, which is made.

    `arguments` are independent_varname, pred_type and mst_key of madlib_mop_predict.
    """
    from cerebro_db import prediction  # loads torch

    values = {"independent_varname": None, **_known(arguments, ("independent_varname", "pred_type", "mst_key"))}
    values["pred_type"] = str(values.get("pred_type", "prob"))
    request = prediction.PredictRequest(models, table, id_col, output_table=output, **values)
    perform(server, lambda database, check: prediction.predict(database, request, check))
    return table_frame(server, TableName.parse(output))


def _known(arguments: Dict[str, Any], known: Sequence[str]) -> Dict[str, Any]:
    for name in arguments:
        if name not in known:
            raise unknown("argument", name, known)
    return dict(arguments)


def _text(params: Params) -> str:
    return params if isinstance(params, str) else json.dumps(params)
