"""Models that work in the processes of Greenplum's segments: rows stay where they are, answers come from there.

The coordinator puts the model into a temporary table that every segment has a copy of, `send`; each
process reads it once, `Model.read`. Functions of the segments keep it between rows.
"""

from __future__ import annotations

import json
import uuid
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence

from torch import nn

from cerebro_db import answers, packing, train
from cerebro_db.answers import Form, PredType
from cerebro_db.batches import Buffer, SegmentRows
from cerebro_db.columns import shape_column
from cerebro_db.database import Database, one
from cerebro_db.engines import dialect, stored
from cerebro_db.errors import DataError, RunError
from cerebro_db.layout import Layout
from cerebro_db.learners import Module, Objective
from cerebro_db.prediction import BATCH_ROWS, Answering, forward, load_module
from cerebro_db.raw_rows import Decoding
from cerebro_db.sqltext import Fragment, TableName, ident, join, query, row_columns
from cerebro_db.train import Check, Tally
from cerebro_db.trained import Trained


def _held(name: str) -> Fragment:
    """The table of a model. Each has a name of its own: processes of a segment that only read remember names of tables
    that their session has rolled back."""
    return TableName("pg_temp", f"cerebro_model_{name}").sql()


# -- on the coordinator ----------------------------------------------------------------------------


@contextmanager
def sent(database: Database, trained: Trained, job: Mapping[str, Any]) -> Iterator[str]:
    """Have a model where segments read it; gives the name that tells it from the one before."""
    name = uuid.uuid4().hex
    values = {
        "model_arch": trained.model_arch, "loss": trained.loss, "metric": trained.metric,
        "layout": trained.layout.to_json(), "sharing": _most_on_a_host(database), **job,
    }  # fmt: skip
    held = _held(name)
    database.rows(query("prediction", "create_model", held=held, stored=stored(database)))
    sql = query("prediction", "fill_model", held=held, model=trained.table.sql())
    database.rows(sql, job=json.dumps(values), mst_key=trained.mst_key)
    yield name
    database.rows(query("prediction", "drop_model", held=held))


def _most_on_a_host(database: Database) -> int:
    hosts = [row["host"] for row in database.rows(dialect(database, "primaries"))]
    return max(map(hosts.count, hosts))


def evaluate(database: Database, trained: Trained, packed: packing.Packed, check: Check) -> Tally:
    """Loss and metric over a packed table; summed in the order of its buffers, so the same each time."""
    columns = packed.layout.names
    parts = {
        "packed": packed.table.sql(),
        "shape": ident(shape_column(columns[0])),
        "columns": row_columns("p", columns),
    }
    sql = query("prediction", "evaluate_copies" if packed.everywhere else "evaluate_buffers", **parts)
    segments = len(database.rows(dialect(database, "primaries")))
    with sent(database, trained, {"layout": packed.layout.to_json()}) as name:
        found = database.rows(sql, model=name, segments=segments)
    tally = Tally()
    for row in sorted(found, key=lambda row: int(row["buffer_id"])):
        rows, loss_sum, metric_sum = row["sums"]
        tally.rows += int(rows)
        tally.loss_sum += loss_sum
        tally.metric_sum += metric_sum
    return tally


def predict(database: Database, job: Answering, check: Check) -> int:
    """Fill an output table; no row but those of the answers moves. Gives the number of rows predicted."""
    told = {"decoding": job.raw.decoding.to_json(), "wanted": asdict(job.form.wanted)}
    with sent(database, job.trained, told) as name:
        values = {**job.raw.encoded.values, "model": name, "class_name": job.raw.layout.target.source}
        database.rows(predict_sql(job), **values)
    return int(one(database, query("packing", "count_rows", table=job.raw.table.sql()))["rows"])


def predict_sql(job: Answering) -> Fragment:
    """The statement that predicts."""
    parts, kinds = job.raw.encoded, (("id", "text"), *job.form.filled)
    filled = (Fragment(f"unnest(q.found[{k}]::{kind}[]) as {name}") for k, (name, kind) in enumerate(kinds, 1))
    return query(
        "prediction",
        "predict_rows",
        output=job.output.sql(),
        answer=answers.answer(job.raw, job.form),
        filled=join(", ", filled),
        id=job.raw.id.sql(),
        inputs=join(", ", parts.sent),
        inner=parts.inner,
        source=job.raw.table.sql(),
        beside=parts.beside,
        joins=parts.joins,
    )


# -- in the process of a segment -------------------------------------------------------------------


@dataclass
class Model:
    """A model in the process of a segment, and the rows that wait for its answers."""

    name: str
    module: nn.Module
    layout: Layout
    job: Mapping[str, Any]
    decoding: Optional[Decoding] = None
    form: Optional[Form] = None
    #: How many rows wait at most.
    block_rows: int = 0
    ids: List[Optional[str]] = field(default_factory=list)
    inputs: List[Sequence[Optional[bytes]]] = field(default_factory=list)
    ended: bool = False

    @classmethod
    def read(cls, database: Database, name: str) -> Model:
        """The model that the coordinator has sent."""
        row = one(database, query("prediction", "held_model", held=_held(name)))
        job = json.loads(row["job"])
        layout = Layout.from_json(job["layout"])
        module = load_module(database, job["model_arch"], layout, job["loss"], row["weights"])
        if "decoding" not in job:
            return cls(name, module, layout, job)
        decoding = Decoding.from_json(job["decoding"])
        form = answers.form(layout.target, job["loss"], PredType(**job["wanted"]))
        return cls(name, module, layout, job, decoding, form, decoding.block_rows)

    def evaluate(self, rows: int, columns: Sequence[bytes], check: Check) -> List[float]:
        """Rows, and loss and metric summed over them, of one buffer of a packed table."""
        buffer = {item.column: data for item, data in zip(self.layout.columns, columns)}
        batches = SegmentRows(_OneBuffer(rows, buffer), self.layout, 0, 1).in_order(BATCH_ROWS)
        scorer = Module(self.module, Objective.named(self.job["loss"], self.job["metric"]))
        tally = train.evaluate(scorer, batches, check)[0]
        return [float(tally.rows), tally.loss_sum, float(tally.metric_sum)]

    def add(self, row_id: Optional[str], inputs: Sequence[Optional[bytes]]) -> bool:
        """Have a row wait; whether it is time to answer."""
        if self.ended:
            raise RunError("rows came behind the end of the rows of a segment; report this with EXPLAIN of the query")
        self.ids.append(row_id)
        self.inputs.append(inputs)
        return len(self.ids) >= self.block_rows

    def answer(self, check: Check) -> Optional[List[str]]:
        """The answers to all rows that wait, as `Form.aligned` gives them; None when there are none.

        Raises DataError when a row is not what the model takes.
        """
        ids, self.ids, rows, self.inputs = self.ids, [], self.inputs, []
        if not ids:
            return None
        assert self.decoding is not None
        assert self.form is not None
        arrays = self.decoding.inputs(len(ids), [self._joined(k, values) for k, values in enumerate(zip(*rows))])
        if arrays is None:
            raise DataError("a row is not what the model was trained on")
        return self.form.aligned(ids, forward(self.module, arrays, self.layout, check))

    def _joined(self, number: int, values: Sequence[Optional[bytes]]) -> Optional[bytes]:
        """The values of one input; None when one is missing, or of another size where nothing says its own."""
        assert self.decoding is not None
        present = [value for value in values if value is not None]
        size = None if self.decoding.wires[number] else self.layout.inputs[number].row_bytes
        fits = len(present) == len(values) and (size is None or all(len(value) == size for value in present))
        return b"".join(present) if fits else None


class _OneBuffer:
    """One buffer of a packed table, as `batches.Source`."""

    def __init__(self, rows: int, buffer: Dict[str, bytes]) -> None:
        self.rows: Sequence[int] = [rows]
        self._buffer = buffer

    def read(self, numbers: Optional[Sequence[int]]) -> Iterator[Buffer]:
        yield self._buffer
