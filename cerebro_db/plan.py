"""What a run was asked to do: all that training sessions and a resume need, as JSON in the catalog."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Dict, Iterable, Optional, Tuple

from cerebro_db.errors import RunError
from cerebro_db.layout import Layout
from cerebro_db.options import Options
from cerebro_db.params import CompileParams, FitParams
from cerebro_db.sqltext import TableName

#: Raised when the meaning of a plan changes; a run of another version cannot be resumed.
VERSION = 1


#: mst_keys of configs that are trained as one.
Groups = Tuple[Tuple[int, ...], ...]


def as_groups(raw: Iterable[Iterable[int]]) -> Groups:
    """From JSON."""
    return tuple(tuple(group) for group in raw)


@dataclass(frozen=True)
class ConfigPlan:
    """One config as it was when the run began, whatever happens to its tables later."""

    mst_key: int
    model_id: int
    model_arch: str
    compile_params: str
    fit_params: str

    @property
    def compiled(self) -> CompileParams:
        return CompileParams.parse(self.compile_params)

    @property
    def fit(self) -> FitParams:
        return FitParams.parse(self.fit_params)


@dataclass(frozen=True)
class SegmentPlan:
    """Where a part of the rows lives."""

    segment_id: int
    dist_key: int
    rows: int


@dataclass(frozen=True)
class Plan:
    source: TableName
    packed: TableName
    #: When the packed table was made; what was dumped and restored is the same table, under another oid.
    packed_at: str
    validation: Optional[TableName]
    layout: Layout
    segments: Tuple[SegmentPlan, ...]
    configs: Tuple[ConfigPlan, ...]
    epochs: int
    #: Validate after every n-th epoch and after the last.
    metrics_frequency: int
    options: Options
    outputs: Dict[str, Any]
    #: torch threads per training session.
    threads: int
    #: Configs that are trained as one, found before the run begins; each is in one group at most.
    groups: Groups = ()

    def to_json(self) -> str:
        raw = asdict(self)
        raw["layout"] = json.loads(self.layout.to_json())
        raw["options"] = self.options.to_dict()
        # For SQL that reads the plan; parsed parameters are derived again when the plan is read.
        raw["objectives"] = [
            {"mst_key": config.mst_key, "loss": config.compiled.loss, "metric": config.compiled.metric}
            for config in self.configs
        ]
        return json.dumps({"version": VERSION, **raw}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        raw = json.loads(text)
        version = raw.pop("version")
        del raw["objectives"]
        if version != VERSION:
            raise RunError(
                f"the run was planned by version {version} of the plan, expected {VERSION}: "
                "resume it with the release that began it, or start a new run"
            )
        raw.update(
            source=TableName(**raw["source"]),
            packed=TableName(**raw["packed"]),
            validation=TableName(**raw["validation"]) if raw["validation"] else None,
            layout=Layout.from_json(json.dumps(raw["layout"])),
            segments=tuple(SegmentPlan(**item) for item in raw["segments"]),
            configs=tuple(ConfigPlan(**item) for item in raw["configs"]),
            options=Options(**raw["options"]),
            groups=as_groups(raw.get("groups", ())),
        )
        return cls(**raw)

    def config(self, mst_key: int) -> ConfigPlan:
        return next(config for config in self.configs if config.mst_key == mst_key)

    def validates(self, epoch: int) -> bool:
        """Whether the epoch ends with a validation pass."""
        due = epoch % self.metrics_frequency == 0 or epoch == self.epochs
        return self.validation is not None and due

    def metric_epochs(self) -> Tuple[int, ...]:
        """Epochs whose metrics are reported: every n-th and the last."""
        return tuple(e for e in range(1, self.epochs + 1) if e % self.metrics_frequency == 0 or e == self.epochs)
