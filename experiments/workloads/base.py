"""What a workload is: rows, in the database and in memory, and the configs that are compared on them."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, replace
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from torch import Tensor, nn

import cerebro_db
from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.errors import UsageError, unknown
from cerebro_db.sqltext import Fragment, fill, ident

#: A value of the JSON of a model, or of an optimizer's argument.
Value = Any
#: Makes the configs of a grid: all of them for None, else as many as asked for.
Grid = Callable[[Optional[int]], List["Config"]]
#: Configs of a grid that nobody sized.
GRID_CONFIGS = 16
_DROP = Fragment("drop table if exists {name}")


@dataclass(frozen=True)
class Size:
    """How many rows of a workload are used; None takes all of them."""

    rows: Optional[int] = None
    validation_rows: Optional[int] = None
    #: Segments that the packed training table is spread over.
    segments: int = 2


@dataclass(frozen=True)
class Config:
    """One architecture with one set of hyper-parameters, as the database and plain PyTorch both take it."""

    #: The architecture as JSON, such as {"model": "mlp", "hidden": [128]}.
    model: str
    lr: float
    weight_decay: float
    batch_size: int
    optimizer: str = "adam"
    #: Further arguments of the optimizer, such as (("betas", (0.9, 0.99)),).
    arguments: Tuple[Tuple[str, Value], ...] = ()

    @property
    def architecture(self) -> Dict[str, Value]:
        return dict(json.loads(self.model))

    @property
    def optimizer_arguments(self) -> Dict[str, Value]:
        """What the class in torch.optim takes besides the parameters."""
        return {"lr": self.lr, "weight_decay": self.weight_decay, **dict(self.arguments)}

    def compile_params(self) -> str:
        given = {"optimizer": self.optimizer, "optimizer_params": self.optimizer_arguments}
        return json.dumps({"loss": "cross_entropy", "metrics": ["accuracy"], **given})

    def fit_params(self) -> str:
        return json.dumps({"batch_size": self.batch_size})

    def to_json(self) -> Dict[str, Value]:
        return asdict(self)

    @classmethod
    def from_json(cls, raw: Mapping[str, Value]) -> Config:
        arguments = tuple((name, _tuple(value)) for name, value in raw.get("arguments", ()))
        return cls(**{**raw, "arguments": arguments})


@dataclass(frozen=True)
class Arrays:
    """Rows in memory: a tensor per input, [rows, ...], and classes int64 [rows].

    Inputs are what the plain module takes: pixels float32 / 255, numbers float32 standardised by the training rows,
    categorical codes int64 from 0, the code of what is missing or unseen. Wide binary rows stay uint8 and become
    float32 by batch: as float32 they would take four times the memory, and that much more time to gather.
    """

    inputs: Tuple[Tensor, ...]
    target: Tensor

    @property
    def rows(self) -> int:
        return len(self.target)

    def part(self, index: Tensor) -> Arrays:
        """A copy of the rows of an int64 index, in its order."""
        return Arrays(tuple(each.index_select(0, index) for each in self.inputs), self.target.index_select(0, index))


@dataclass(frozen=True)
class Data:
    """The rows that are trained on and those that are validated on."""

    training: Arrays
    validation: Arrays
    #: Classes of the target.
    classes: int
    #: Codes of each categorical column, code 0 included.
    cardinalities: Tuple[int, ...] = ()


@dataclass(frozen=True)
class Tables:
    """Names of the tables that a fit takes."""

    training: str
    validation: str
    selection: str


class Workload(ABC):
    """Rows and configs. All tables begin with `prefix`, and what an earlier call left of them is made anew."""

    name: str
    #: By name, what makes a grid; the first is meant by default.
    grids: Mapping[str, Grid]
    #: Columns as the preprocessors take them, and what arrays are divided by.
    label: str
    features: str
    normalizing_const = 1.0

    def load(self, dsn: str, size: Size, prefix: str) -> Tables:
        """Make the raw tables and pack them; the selection table is named, not made. Public names only."""
        raw, checked = prefix + "_rows", prefix + "_checked"
        tables = Tables(raw + "_packed", checked + "_packed", prefix + "_configs")
        with connect(dsn) as db:
            for table in (raw, checked):
                drop(db, table, table + "_packed", table + "_packed_summary")
            self.store(db, raw, checked, size)
        cerebro_db.pack(
            dsn, raw, tables.training, self.label, self.features, normalizing_const=self.normalizing_const,
            options={"segments": size.segments},
        )  # fmt: skip
        cerebro_db.pack_validation(dsn, checked, tables.validation, tables.training, self.label, self.features)
        return tables

    @abstractmethod
    def store(self, db: PsycopgDatabase, raw: str, checked: str, size: Size) -> None:
        """Make the tables of rows to train and to validate on; neither is there."""

    @abstractmethod
    def arrays(self, size: Size) -> Data:
        """The same rows in memory, in the same preprocessing."""

    def configs(self, grid: str = "", count: Optional[int] = None) -> List[Config]:
        """The configs of a grid; `count` of them, or the first so many of a grid that has a size of its own.

        Raises UsageError for a grid or a number that there is not.
        """
        name = grid or next(iter(self.grids))
        if name not in self.grids:
            raise unknown(f"grid of workload {self.name}", name, list(self.grids))
        return self.grids[name](count)

    @abstractmethod
    def module(self, config: Config, data: Data) -> nn.Module:
        """The config's network in plain PyTorch, with torch's initial weights; takes `Arrays.inputs`."""

    def prepare(self, dsn: str, size: Size, configs: Sequence[Config], prefix: str = "") -> Tables:
        """Everything that a fit takes: packed tables and a selection table whose mst_key n is the n-th config."""
        tables = self.load(dsn, size, prefix or self.name)
        select(dsn, tables.selection, configs)
        return tables


def select(dsn: str, table: str, configs: Sequence[Config]) -> None:
    """Make a selection table, and `<table>_arch` with its architectures, anew; mst_key counts the configs from 1."""
    arch = table + "_arch"
    with connect(dsn) as db:
        drop(db, table, table + "_summary", arch)
    ids: Dict[str, int] = {}
    for config in configs:
        if config.model not in ids:
            ids[config.model] = cerebro_db.load_model_arch(dsn, arch, config.model)
    for config in configs:
        point = config.optimizer_arguments
        compiled = {
            "loss": ["cross_entropy"], "metrics": ["accuracy"],
            "optimizer_params_list": [{"optimizer": [config.optimizer], **{key: [point[key]] for key in point}}],
        }  # fmt: skip
        fitted = {"batch_size": [config.batch_size]}
        cerebro_db.generate_model_configs(dsn, arch, table, [ids[config.model]], compiled, fitted)


def drop(db: PsycopgDatabase, *tables: str) -> None:
    """Drop tables that an earlier experiment made."""
    for table in tables:
        db.script(fill(_DROP, name=ident(table)))


def model(kind: str, **options: Value) -> str:
    """The JSON of an architecture."""
    return json.dumps({"model": kind, **options})


def first(configs: Sequence[Config]) -> Grid:
    """A grid of so many configs at most."""

    def take(count: Optional[int]) -> List[Config]:
        if count is not None and not 0 < count <= len(configs):
            raise UsageError(f"{count} configs are asked for, expected 1 to {len(configs)}, which the grid has")
        return list(configs[:count])

    return take


def uniform(config: Config) -> Grid:
    """Any number of configs that take the same time: they differ in the learning rate only."""
    return lambda count: [replace(config, lr=lr) for lr in rates(count or GRID_CONFIGS)]


def rates(count: int) -> List[float]:
    """Learning rates from 0.0001 to 0.003, in even steps of their logarithm."""
    steps = max(1, count - 1)
    return [round(1e-4 * 30 ** (step / steps), 8) for step in range(count)]


def _tuple(value: Value) -> Value:
    return tuple(_tuple(item) for item in value) if isinstance(value, list) else value
