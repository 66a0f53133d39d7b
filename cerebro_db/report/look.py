"""How the configs of a run look, the same in the table and in every plot: label, colour, sign, hover text."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Dict, List, Optional, Sequence, Tuple

from cerebro_db.report import accounting, words
from cerebro_db.report.accounting import Standing
from cerebro_db.report.record import Config, Epoch, Record

#: Distinct for all kinds of colour vision (after Okabe and Ito, darker where pale on white).
DISTINCT = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#7a5195", "#8a8d91")
#: From best to worst when there are more configs than distinct colours; lightness changes steadily.
SCALE = ("#6a2c91", "#4450ab", "#2774ae", "#1d91a8", "#2ba58b", "#63b667", "#a3bf4b", "#dcb64a")
#: A config without a result.
NO_RESULT = "#9a9fa8"
DASHES = ("solid", "dot", "dash", "longdash")
SYMBOLS = ("circle", "diamond", "square", "triangle-up")


@dataclass(frozen=True)
class Look:
    """A record with what every figure needs to draw it; texts are escaped for HTML."""

    record: Record
    board: Tuple[Standing, ...]
    #: Parameters that differ between configs, with their values in order.
    varied: Dict[str, List[str]]
    #: By mst_key.
    labels: Dict[int, str]
    colours: Dict[int, str]
    details: Dict[int, str]
    #: Place of the config's model among the models, by mst_key.
    models: Dict[int, int]

    @classmethod
    def of(cls, record: Record) -> Look:
        board = tuple(accounting.leaderboard(record))
        varied = words.varied(record.configs)
        names = [name for name in varied if name != "model"]
        models = sorted({config.model for config in record.configs})
        return cls(
            record=record,
            board=board,
            varied=varied,
            labels={c.mst_key: html.escape(words.label(c, names)) for c in record.configs},
            colours=colours(board),
            details={c.mst_key: _details(c) for c in record.configs},
            models={c.mst_key: models.index(c.model) for c in record.configs},
        )

    @property
    def ranked(self) -> Tuple[Standing, ...]:
        return tuple(standing for standing in self.board if standing.rank is not None)

    @property
    def common(self) -> Dict[str, str]:
        """The parameters that all configs share."""
        first = self.record.configs[0].params if self.record.configs else {}
        return {name: value for name, value in first.items() if name not in self.varied}

    @property
    def kind(self) -> str:
        return "validation" if self.record.run.validation_table else "training"

    @property
    def metric_name(self) -> str:
        """The metric's own name when all configs share it."""
        names = {config.params.get("metric", "metric") for config in self.record.configs}
        return names.pop() if len(names) == 1 else "metric"

    @property
    def deciding_name(self) -> str:
        """What configs are ranked by, in words."""
        return f"{self.kind} {'loss' if self.record.run.ranking == 'loss' else self.metric_name}"

    def deciding_value(self, standing: Standing) -> Optional[float]:
        """The value a config is ranked by."""
        return standing.loss if self.record.run.ranking == "loss" else standing.metric

    def epochs(self, mst_key: int) -> List[Epoch]:
        return [epoch for epoch in self.record.epochs if epoch.mst_key == mst_key]


def colours(board: Sequence[Standing]) -> Dict[int, str]:
    """One colour per config by its place; with few configs clearly distinct ones."""
    ranked = [standing.config.mst_key for standing in board if standing.rank is not None]
    unranked = {standing.config.mst_key: NO_RESULT for standing in board if standing.rank is None}
    if not ranked and len(board) <= len(DISTINCT):
        return dict(zip(unranked, DISTINCT))
    if len(ranked) <= len(DISTINCT):
        return {**unranked, **dict(zip(ranked, DISTINCT))}
    last = len(ranked) - 1
    return {**unranked, **{key: _between(place / last) for place, key in enumerate(ranked)}}


def _between(position: float) -> str:
    """The colour of the scale at 0..1."""
    place = position * (len(SCALE) - 1)
    low = min(int(place), len(SCALE) - 2)
    pairs = zip(_rgb(SCALE[low]), _rgb(SCALE[low + 1]))
    return "#" + "".join(f"{round(a + (b - a) * (place - low)):02x}" for a, b in pairs)


def _rgb(colour: str) -> Tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _details(config: Config) -> str:
    """All parameters of a config in lines of three, for a hover."""
    pairs = [f"{html.escape(name)} {html.escape(value)}" for name, value in config.params.items()]
    return "<br>".join(", ".join(pairs[start : start + 3]) for start in range(0, len(pairs), 3))
