"""How a packed table holds its rows: the inputs, the target, and what predict must repeat.

A packed table has one row per buffer of many examples: a `bytea` column per input and for the
target, each with its `<column>_shape integer[]` ([rows, ...]), `buffer_id` and `__dist_key__`.
The layout is stored as JSON in the `layout` column of `<packed>_summary`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from math import prod
from typing import Any, Dict, Optional, Tuple, Union

#: The distribution key column of every packed table; MADlib's name.
DIST_KEY = "__dist_key__"
#: The order of buffers; unique over the whole table.
BUFFER_ID = "buffer_id"


@dataclass(frozen=True)
class Input:
    """One `bytea` column of features; a buffer of it decodes to [rows, *shape] of `dtype`."""

    column: str
    #: "array" (an image, a vector), "numeric" (stacked scalars) or "categorical" (stacked codes).
    kind: str
    #: NumPy dtype as stored, byte order included: "|u1", ">i2", ">f4", ">i4".
    dtype: str
    #: Shape of one example.
    shape: Tuple[int, ...]
    #: The source columns, in order.
    sources: Tuple[str, ...]
    #: Categorical: per source column, the texts behind codes 1..n; code 0 is missing or unseen.
    vocabulary: Tuple[Tuple[str, ...], ...] = ()
    #: Numeric: mean and standard deviation of each source column over the training rows.
    mean: Tuple[float, ...] = ()
    deviation: Tuple[float, ...] = ()

    @property
    def row_bytes(self) -> int:
        return prod(self.shape) * int(self.dtype[2:])

    @property
    def cardinalities(self) -> Tuple[int, ...]:
        """Categorical: number of codes per source column, code 0 included."""
        return tuple(len(words) + 1 for words in self.vocabulary)


@dataclass(frozen=True)
class Target:
    """The label. "class": int32 codes [rows]; "value": float32 [rows]; "vector": float32 [rows, n]."""

    column: str
    kind: str
    dtype: str
    shape: Tuple[int, ...]
    source: str
    #: SQL type of the source column, so that predict can give labels back in their own type.
    sql_type: str
    #: Class: the label texts behind codes 0..n-1, in order; None stands for the label NULL.
    classes: Tuple[Optional[str], ...] = ()
    #: Outputs of a model. Class: at least len(classes), more when num_classes asked for it.
    #: Vector: its length. Value: 1.
    outputs: int = 1
    #: `sql_type` by its plain name in pg_type, such as "int4"; of an array, its element type.
    base: str = ""

    @property
    def row_bytes(self) -> int:
        return prod(self.shape) * int(self.dtype[2:])


@dataclass(frozen=True)
class Layout:
    """Everything needed to decode a packed table and to encode new rows the same way."""

    inputs: Tuple[Input, ...]
    target: Target
    #: Array inputs are divided by this, as float32.
    normalizing_const: float = 1.0
    #: NULL policy: "refuse", "drop" or "impute".
    nulls: str = "refuse"
    #: For "impute": the value put for NULL in each numeric source column (its mean).
    #: Kept apart from `Input.mean` so that a reader sees what was done.
    imputed: Tuple[float, ...] = ()
    #: The source columns in the order the user gave them: other tables map to them by position.
    features: Tuple[str, ...] = ()

    @property
    def columns(self) -> Tuple[Union[Input, Target], ...]:
        """The packed `bytea` columns: the inputs in order, then the target."""
        return (*self.inputs, self.target)

    @property
    def names(self) -> Tuple[str, ...]:
        """The names of these columns."""
        return tuple(column.column for column in self.columns)

    @property
    def row_bytes(self) -> int:
        """What one row takes in them [bytes]."""
        return sum(column.row_bytes for column in self.columns)

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Layout:
        raw = json.loads(text)
        inputs = tuple(Input(**_frozen(item)) for item in raw.pop("inputs"))
        return cls(inputs=inputs, target=Target(**_frozen(raw.pop("target"))), **_frozen(raw))


def _frozen(raw: Dict[str, Any]) -> Dict[str, Any]:
    return {key: _tuple(value) for key, value in raw.items()}


def _tuple(value: Any) -> Any:
    return tuple(_tuple(item) for item in value) if isinstance(value, list) else value
