"""Tiny fits for tests of what is done with models: a table of raw rows, its packed copy, a fit."""

from __future__ import annotations

import json
from typing import Any, Dict, List

import torch
from safetensors.torch import load

from cerebro_db.client import PsycopgDatabase
from cerebro_db.sqltext import Fragment, fill, ident

#: Labels that must come through an array's text unharmed.
LABELS = ['a"b\\c', "{d, e}", "null"]
IMAGES = Fragment(
    "create table images as select i::bigint as id, decode(md5(i::text), 'hex') as img"
    ", (%(labels)s::text[])[i %% 3 + 1] as label from generate_series(1, 400) as i"
)
#: Two features of two kinds with NULLs, a boolean label, a number, an array of numbers, an image.
PEOPLE = Fragment(
    "create table people as select 'p' || i as id, case when i %% 10 > 0 then i / 100.0::float8 end as age"
    ", case when i %% 7 > 0 then 'town ' || i %% 5 end as town, i %% 3 = 0 as won, i / 7.0::float8 as worth"
    ", array[i %% 2, i %% 3]::float4[] as pair, array[[i %% 3, i %% 5], [i %% 7, i]]::int4[] as grid"
    ", (9007199254740990 + i %% 2)::bigint as big from generate_series(1, 200) as i"
)


def fit(pg: PsycopgDatabase, name: str, columns: List[str], arch: Any, compiles: List[Any], **options: Any) -> None:
    """Pack columns = [table, label, features] as <name>_packed and train one config per compile parameters."""
    table, label, features = columns
    pack = (
        "select training_preprocessor_dl(%(table)s, %(packed)s, %(label)s, %(features)s, null, 255"
        ", options := %(options)s::jsonb)"
    )
    chosen = json.dumps({"segments": 1, **options})
    packed = f"{name}_packed"
    rows(pg, pack, table=table, packed=packed, label=label, features=features, options=chosen)
    models, configs = f"{name}_arch", f"{name}_mst"
    rows(pg, "select load_model_arch(%(arch)s, %(model)s::json)", arch=models, model=json.dumps(arch))
    select = (
        "select load_model_selection_table(%(arch)s, %(mst)s, array[1], %(compile)s::varchar[]"
        ", array['batch_size=50'])"
    )
    rows(pg, select, arch=models, mst=configs, compile=[json.dumps(each) for each in compiles])
    rows(pg, "select * from madlib_mop_fit(%(packed)s, %(name)s, %(mst)s, 1)", packed=packed, name=name, mst=configs)


def rows(pg: PsycopgDatabase, sql: str, **values: Any) -> List[Dict[str, Any]]:
    """Rows of a query written in a test."""
    return pg.rows(Fragment(sql), **values)


def read(pg: PsycopgDatabase, table: str) -> List[Dict[str, Any]]:
    return pg.rows(fill(Fragment("select * from {t}"), t=ident(table)))


def mlp_outputs(pg: PsycopgDatabase, name: str, mst_key: int, x: torch.Tensor) -> torch.Tensor:
    """A plain forward of a stored MLP of one hidden layer: x [rows, features] -> [rows, outputs]."""
    sql = fill(Fragment("select model_weights as w from {t} where mst_key = %(key)s"), t=ident(name))
    tensors = load(pg.rows(sql, key=mst_key)[0]["w"])
    weights = [tensors[key] for key in sorted(tensors) if key.endswith("weight")]
    biases = [tensors[key] for key in sorted(tensors) if key.endswith("bias")]
    hidden = torch.relu(x @ weights[0].T + biases[0])
    return hidden @ weights[1].T + biases[1]
