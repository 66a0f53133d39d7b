"""What predict writes: which classes or numbers of a model's outputs, and how they reach a table."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Dict, List, Optional, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor

from cerebro_db import names, objective
from cerebro_db.database import Database, one
from cerebro_db.engines import dialect
from cerebro_db.errors import UsageError
from cerebro_db.layout import Target
from cerebro_db.raw_rows import Block, RawRows
from cerebro_db.sqltext import Fragment, TableName, ident, query

#: Probabilities travel as whole numbers of 2^-62: writing and reading those as text takes a quarter of
#: the time that floats take, and every float32 from 2^-38 to 1 keeps its value.
_SCALE = 2.0**62
_EXPECTED = (
    "expected 'prob' (every class), 'response' (the most likely class), a whole number k of 1 or more (the k "
    "most likely classes), or a number p with a decimal point, 0 <= p < 1 (classes of a probability above p)"
)


#: What fills the columns of an output table behind class_name, with SQL types.
_FILLED: Dict[str, Tuple[Tuple[str, str], ...]] = {
    "best": (("label", "text"), ("prob", "bigint")),
    "ranked": (("label", "text"), ("prob", "bigint"), ("rank", "integer")),
    "value": (("value", "float8"),),
    "components": (("component", "integer"), ("value", "float8")),
}


@dataclass(frozen=True)
class PredType:
    """Which classes are asked for: "prob" all, "response" the best, "top" k of them, "above" p."""

    kind: str
    #: "top": how many. "above": the probability.
    number: float = 0

    @classmethod
    def parse(cls, text: Optional[str]) -> PredType:
        """Read 'prob', 'response', '3' or '0.25'; None is 'prob'. Raises UsageError for anything else."""
        word = "prob" if text is None else text.strip().lower()
        if word in ("prob", "response"):
            return cls(word)
        if re.fullmatch(r"\+?\d+", word) and int(word) >= 1:
            return cls("top", int(word))
        if re.fullmatch(r"\+?(\d+\.\d*|\.\d+|\d+(\.\d*)?e-\d+)", word) and 0 <= float(word) < 1:
            return cls("above", float(word))
        raise UsageError(f"pred_type is {text!r}, {_EXPECTED}")

    def __str__(self) -> str:
        return f"{self.number:g}" if self.kind in ("top", "above") else repr(self.kind)


@dataclass(frozen=True)
class Form:
    """The columns of an output table beside the id, and what fills them."""

    target: Target
    loss: str
    wanted: PredType

    @property
    def is_class(self) -> bool:
        return self.target.kind == "class"

    @property
    def columns(self) -> Tuple[str, ...]:
        if self.is_class:
            return ("class_name", "class_value", "prob") + ("rank",) * (self.wanted.kind != "response")
        return ("class_name",) + ("component",) * (self.target.kind == "vector") + ("prediction",)

    @property
    def kind(self) -> str:
        """One answer per row, "best" or "value", or several, "ranked" or "components"."""
        if self.is_class:
            return "best" if self.wanted.kind == "response" else "ranked"
        return "components" if self.target.kind == "vector" else "value"

    @property
    def filled(self) -> Tuple[Tuple[str, str], ...]:
        """What `aligned` gives behind the ids, with the SQL type of each."""
        return _FILLED[self.kind]

    def aligned(self, ids: Sequence[Optional[str]], outputs: Tensor) -> List[str]:
        """Outputs as texts of arrays of one length: an id for each answer, then what `filled` names."""
        found = self.rows(outputs)
        places = found.get("places")
        if places is not None:
            ids = [ids[int(place) - 1] for place in places[1:-1].split(",") if place]
        return ["{" + ",".join(map(_quoted, ids)) + "}", *(found[f"{name}s"] for name, _ in self.filled)]

    def check_id(self, name: str) -> None:
        """Raise UsageError when the id has the name of another column."""
        if name in self.columns:
            raise UsageError(
                f"id_col {name!r} bears the name of a column of the output table; rename it in a view"
            )

    def rows(self, outputs: Tensor) -> Dict[str, str]:
        """Outputs [rows, n] or [rows] as texts of arrays, one per value of the insert."""
        if not self.is_class:
            return self._numbers(outputs)
        if self.wanted.kind == "response":
            return self._best(outputs)
        return self._ranked(outputs)

    def _best(self, outputs: Tensor) -> Dict[str, str]:
        scores, probs = self._scores(outputs)
        codes = scores.argmax(1, keepdim=True)
        return {"labels": self._labels(codes), "probs": _scaled(probs.gather(1, codes))}

    def _ranked(self, outputs: Tensor) -> Dict[str, str]:
        scores, probs = self._scores(outputs)
        codes = scores.argsort(dim=1, descending=True, stable=True)
        if self.wanted.kind == "top":
            codes = codes[:, : int(self.wanted.number)]
        probs = probs.gather(1, codes)
        least = self.wanted.number if self.wanted.kind == "above" else -math.inf
        above = ~(probs <= least)  # NaN shows
        places, ranks = above.nonzero(as_tuple=True)
        return {
            "places": _whole(places + 1),
            "labels": self._labels(codes[above]),
            "probs": _scaled(probs[above]),
            "ranks": _whole(ranks + 1),
        }

    def _numbers(self, outputs: Tensor) -> Dict[str, str]:
        values = self._values(outputs)
        found = {"values": "{" + ",".join(map(repr, values.double().flatten().tolist())) + "}"}
        if self.target.kind == "vector":
            rows, width = values.shape
            found["places"] = _whole(torch.arange(1, rows + 1).repeat_interleave(width))
            found["components"] = _whole(torch.arange(1, width + 1).repeat(rows))
        return found

    def _values(self, outputs: Tensor) -> Tensor:
        """Numbers [rows, width]; of independent labels their probabilities, or 0 and 1 for 'response'."""
        values = outputs.reshape(len(outputs), math.prod(self.target.shape))
        if self.loss != "bce_with_logits":
            return values
        return (values > 0).float() if self.wanted.kind == "response" else values.sigmoid()

    def _scores(self, outputs: Tensor) -> Tuple[Tensor, Tensor]:
        """What ranks the classes as the metric does, and their probabilities; [rows, classes] both."""
        scores = outputs
        if self.loss == "bce_with_logits" and (outputs.dim() == 1 or outputs.shape[1] == 1):
            logits = outputs.reshape(-1, 1)
            scores = torch.cat([-logits, logits], 1)
        return scores, objective.probabilities(self.loss, outputs)

    def _labels(self, codes: Tensor) -> str:
        texts = [_quoted(label) for label in self.target.classes]
        texts += ["NULL"] * (self.target.outputs - len(texts))  # classes that num_classes asked for
        return "{" + ",".join(map(texts.__getitem__, codes.flatten().tolist())) + "}"


def form(target: Target, loss: str, wanted: PredType) -> Form:
    """The answers of a model; raises UsageError for classes asked of a regression."""
    if target.kind != "class" and wanted.kind in ("top", "above"):
        raise UsageError(
            f"pred_type is {wanted}, but the model predicts numbers of {target.source!r}, not classes; "
            "use 'response'"
        )
    return Form(target, loss, wanted)


def create(database: Database, output: TableName, raw: RawRows, form: Form) -> None:
    """An empty output table; on Greenplum its rows are spread by their ids, or anyhow where these have no hash."""
    column = ident(raw.id.name)
    hashed = one(database, dialect(database, "has_hash"), table=names.literal(raw.table), column=raw.id.name)["hashed"]
    parts = {
        "output": output.sql(), "id": raw.id.sql(), "column": column, "source": raw.table.sql(),
        "heap": dialect(database, "heap"),
        "distributed": dialect(database, "distributed", columns=column) if hashed else dialect(database, "randomly"),
    }  # fmt: skip
    if form.is_class:
        rank = Fragment(", null::integer as rank" if "rank" in form.columns else "")
        database.rows(query("prediction", "create_classes", rank=rank, **parts))
    else:
        component = Fragment(", null::integer as component" if "component" in form.columns else "")
        database.rows(query("prediction", "create_values", component=component, **parts))


def write(database: Database, output: TableName, raw: RawRows, block: Block, form: Form, outputs: Tensor) -> None:
    """Insert the answers of a block."""
    found = form.rows(outputs)
    sql = query(
        "prediction", f"insert_{form.kind}", output=output.sql(), types=raw.ids_type, answer=answer(raw, form)
    )
    database.rows(sql, ids=block.ids, class_name=raw.layout.target.source, **found)


def answer(raw: RawRows, form: Form) -> Fragment:
    """The columns of an output table, made of a row `u`: an id and what `Form.filled` names."""
    return query("prediction", f"answer_{form.kind}", type=raw.id_type)


def _scaled(probs: Tensor) -> str:
    """Probabilities as whole numbers of 2^-62; -1 stands for NaN."""
    scaled = probs.double().flatten().numpy() * _SCALE
    scaled[np.isnan(scaled)] = -1
    return "{" + ",".join(map(str, scaled.astype(np.int64).tolist())) + "}"


def _whole(numbers: Tensor) -> str:
    return "{" + ",".join(map(str, numbers.tolist())) + "}"


def _quoted(label: Optional[str]) -> str:
    """A label as an element of an array's text."""
    if label is None:
        return "NULL"
    return '"' + label.replace("\\", "\\\\").replace('"', '\\"') + '"'
