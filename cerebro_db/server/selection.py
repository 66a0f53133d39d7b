"""SQL functions over tables of architectures and configs."""

from __future__ import annotations

from typing import Any, List, Optional

from cerebro_db import selection
from cerebro_db.server.entry import sql_function
from cerebro_db.server.plpy_database import PlpyDatabase


@sql_function
def load_model_arch(
    plpy: Any,
    model_arch_table: Optional[str],
    model_arch: Optional[str],
    model_weights: Optional[bytes],
    name: Optional[str],
    description: Optional[str],
) -> int:
    database = PlpyDatabase(plpy)
    return selection.load_model_arch(
        database, model_arch_table, model_arch, model_weights, name, description
    )


@sql_function
def delete_model_arch(plpy: Any, model_arch_table: Optional[str], model_id: Optional[int]) -> None:
    selection.delete_model_arch(PlpyDatabase(plpy), model_arch_table, model_id)


@sql_function
def load_model_selection_table(
    plpy: Any,
    model_arch_table: Optional[str],
    model_selection_table: Optional[str],
    model_id_list: Optional[List[Any]],
    compile_params_list: Optional[List[Any]],
    fit_params_list: Optional[List[Any]],
) -> None:
    selection.load_model_selection_table(
        PlpyDatabase(plpy),
        model_arch_table,
        model_selection_table,
        model_id_list,
        compile_params_list,
        fit_params_list,
    )


@sql_function
def generate_model_configs(plpy: Any, *arguments: Any) -> None:
    selection.generate_model_configs(PlpyDatabase(plpy), selection.GridRequest(*arguments))
