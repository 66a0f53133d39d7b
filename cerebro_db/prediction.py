"""Evaluate and predict with the models of a fit, on packed rows and on raw rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, List, Optional, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor, nn

from cerebro_db import answers, architecture, factories, names, packing, train
from cerebro_db.answers import Form, PredType
from cerebro_db.batches import Decoder, SegmentRows
from cerebro_db.database import Database, together
from cerebro_db.engines import dialect
from cerebro_db.errors import SetupError, UsageError
from cerebro_db.layout import Layout
from cerebro_db.learners import Module, Objective
from cerebro_db.pack_write import settings
from cerebro_db.packed_source import PackedSource
from cerebro_db.raw_rows import RawRows, open_rows, refuse_unfit
from cerebro_db.sqltext import TableName, query
from cerebro_db.state import load_weights
from cerebro_db.train import Check, Tally
from cerebro_db.trained import Trained, read_trained

#: Rows of a forward pass at most: its inputs as float32 should stay in the cache of the processor.
BATCH_ROWS = 1024

#: Ids as text keep all digits; words are looked up by hashing; compiling does not pay.
_STEADY = {
    "extra_float_digits": "3",
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
    "enable_hashagg": "off",
    "enable_nestloop": "off",
    "enable_mergejoin": "off",
    "optimizer": "off",
    "join_collapse_limit": "1",
}


@dataclass(frozen=True)
class EvaluateRequest:
    """The arguments of madlib_mop_evaluate."""

    model_table: Optional[str]
    test_table: Optional[str]
    output_table: Optional[str]
    use_gpus: Optional[bool] = False
    #: None takes the best config.
    mst_key: Optional[int] = None


@dataclass(frozen=True)
class PredictRequest:
    """The arguments of madlib_mop_predict."""

    model_table: Optional[str]
    test_table: Optional[str]
    id_col: Optional[str]
    #: None takes the columns named as in training.
    independent_varname: Optional[str]
    output_table: Optional[str]
    pred_type: Optional[str] = "prob"
    use_gpus: Optional[bool] = False
    mst_key: Optional[int] = None


@dataclass(frozen=True)
class Answering:
    """What is predicted, checked, and the empty table for the answers."""

    trained: Trained
    raw: RawRows
    form: Form
    output: TableName


#: How the rows of a packed table are evaluated, and those of a table predicted: in this process by default.
Measure = Callable[[Database, Trained, packing.Packed, Check], Tally]
Answer = Callable[[Database, Answering, Check], int]


def measure_here(database: Database, trained: Trained, packed: packing.Packed, check: Check) -> Tally:
    """Rows of a packed table, evaluated in this process."""
    columns = packed.layout.names
    # Nothing is read twice, so nothing is kept.
    rows = SegmentRows(PackedSource(database, columns, packed.table, None), packed.layout, 0, 1)
    scorer = Module(_module(database, trained), Objective.named(trained.loss, trained.metric))
    return train.evaluate(scorer, rows.in_order(BATCH_ROWS), check)[0]


def answer_here(database: Database, job: Answering, check: Check) -> int:
    """Raw rows, predicted in this process a block at a time; memory does not grow with the table."""
    module = _module(database, job.trained)
    count = 0
    for block in job.raw.blocks(database):
        outputs = forward(module, block.inputs, job.raw.layout, check)
        answers.write(database, job.output, job.raw, block, job.form, outputs)
        count += block.rows
    return count


def evaluate(database: Database, request: EvaluateRequest, check: Check, measure: Measure = measure_here) -> Tally:
    """Loss and metric of one config over a packed table, also written to a table of one row.

    `check` is called between batches. Raises UsageError and its kin before anything is created.
    """
    _refuse_gpus(request.use_gpus)
    table = names.require(database, request.test_table, "test_table")
    trained = read_trained(database, request.model_table, request.mst_key)
    packed = _require_packed(database, str(table), trained)
    output = names.require_new(database, request.output_table, "output_table")
    with together(database):
        tally = measure(database, trained, packed, check)
        parts = {name: dialect(database, name) for name in ("heap", "replicated")}
        database.rows(
            query("prediction", "evaluation", output=output.sql(), **parts),
            loss=tally.loss,
            metric=tally.metric if trained.metric else None,
            metrics_type=[trained.metric] if trained.metric else [],
            loss_type=trained.loss,
            mst_key=trained.mst_key,
            rows=tally.rows,
        )
    return tally


def predict(database: Database, request: PredictRequest, check: Check, answer: Answer = answer_here) -> int:
    """Predict every raw row of a table into a new table; gives the number of rows predicted.

    One transaction. `check` is called between batches. Raises
    UsageError and its kin before anything is created, DataError for rows that do not fit.
    """
    wanted = PredType.parse(request.pred_type)
    _refuse_gpus(request.use_gpus)
    table = names.require(database, request.test_table, "test_table")
    trained = read_trained(database, request.model_table, request.mst_key)
    raw = open_rows(database, table, request.id_col, request.independent_varname, trained.layout)
    form = answers.form(trained.layout.target, trained.loss, wanted)
    form.check_id(raw.id.name)
    output = names.require_new(database, request.output_table, "output_table")
    with together(database), settings(database, _STEADY):
        answers.create(database, output, raw, form)
        if raw.overflows:
            refuse_unfit(database, raw)
        return answer(database, Answering(trained, raw, form, output), check)


def load_module(database: Database, model_arch: str, layout: Layout, loss: str, weights: bytes) -> nn.Module:
    """The module of an architecture (JSON) with its weights, in evaluation mode."""
    parsed = architecture.Architecture.parse(model_arch)
    allowed = factories.registry(database, [model_arch])
    module = architecture.build(parsed, layout, loss, allowed, weigh=False)  # a fit has trained it
    load_weights(module, weights)
    return module.train(False)


def _module(database: Database, trained: Trained) -> nn.Module:
    return load_module(database, trained.model_arch, trained.layout, trained.loss, trained.weights)


def forward(module: nn.Module, arrays: Sequence[np.ndarray], layout: Layout, check: Check) -> Tensor:
    """Outputs [rows, n] or [rows] of the rows of some arrays, [rows, *shape] per input."""
    decoder = Decoder(layout)
    rows = len(arrays[0])
    tensors = [torch.chunk(torch.from_numpy(array), -(-rows // BATCH_ROWS)) for array in arrays]
    outputs: List[Tensor] = []
    with torch.no_grad():
        for parts in zip(*tensors):
            inputs = (decoder.input(part, spec) for part, spec in zip(parts, layout.inputs))
            outputs.append(module(*inputs))
            check()
    return torch.cat(outputs)


def _refuse_gpus(use_gpus: Optional[bool]) -> None:
    if use_gpus:
        raise SetupError("use_gpus is true, but this version predicts on CPUs only; pass use_gpus := false")


def _require_packed(database: Database, text: str, trained: Trained) -> packing.Packed:
    """The packed test table, when its rows decode to what the model was trained on."""
    table = names.require(database, text, "test_table")
    remedy = (
        "pack it by validation_preprocessor_dl with training_preprocessor_table "
        f"{trained.packed_table!r}"
    )
    if not packing.is_packed(database, table):
        raise UsageError(f"test_table {table} is not packed; {remedy}")
    packed = packing.read_packed(database, text, "test_table")
    if _meaning(packed.layout) != _meaning(trained.layout):
        raise UsageError(
            f"test_table {table} is packed differently from the rows that {trained.table} was trained on; "
            f"{remedy}"
        )
    return packed


def _meaning(layout: Layout) -> Tuple[object, ...]:
    """What must agree: all but the dtypes, which say how the same numbers are stored, and label names."""
    inputs = tuple((item.kind, item.shape, item.vocabulary) for item in layout.inputs)
    target = layout.target
    return inputs, target.kind, target.shape, target.classes, layout.normalizing_const
