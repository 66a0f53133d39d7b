"""NYC flights 2013: which flight will be late. Numbers and words, and networks so small that calls cost most."""

from __future__ import annotations

import zipfile
from functools import lru_cache
from itertools import product
from typing import Dict, List, Optional, Tuple

import numpy as np
import pandas as pd
import torch
from torch import nn

from cerebro_db.client import PsycopgDatabase
from cerebro_db.datasets import flights_file, load_flights
from cerebro_db.sqltext import Fragment, fill, ident
from experiments.workloads import plain
from experiments.workloads.base import Arrays, Config, Data, Size, Workload, first, model, uniform

NUMBERS = ("month", "day", "weekday", "sched_dep_minute", "sched_arr_minute", "dep_delay", "distance")
WORDS = ("carrier", "origin", "dest")
FEATURES = ", ".join((*NUMBERS, *WORDS))
MODEL = model("tabular", hidden=[64, 64])
BATCH_ROWS = 32
RATES, DECAYS, BETAS = (3e-4, 1e-3, 2e-3, 4e-3), (0.0, 1e-5), ((0.9, 0.999), (0.9, 0.99))
#: Minutes above which an arrival is late, as in `cerebro_db.datasets`.
LATE_MINUTES = 15

#: Evenly spread rows, since they are in the order of the year; those with a NULL are left out first.
_PART = Fragment(
    "create table {name} as select * from"
    " (select f.*, row_number() over (order by id) - 1 as place, count(*) over () as n from {source} f"
    "   where dep_delay is not null and late is not null) as known"
    " where (place * least(n, %(rows)s::bigint)) %% n < least(n, %(rows)s::bigint)"
)


def configs() -> List[Config]:
    """16 configs of one architecture and batch size."""
    combined = product(RATES, DECAYS, BETAS)
    return [Config(MODEL, lr, decay, BATCH_ROWS, arguments=(("betas", betas),)) for lr, decay, betas in combined]


class Flights(Workload):
    name = "flights"
    label, features = "late", FEATURES
    grids = {"grid": first(configs()), "uniform": uniform(Config(MODEL, 1e-3, 0.0, BATCH_ROWS))}

    def store(self, db: PsycopgDatabase, raw: str, checked: str, size: Size) -> None:
        load_flights(db)
        _take(db, raw, "flights_train", size.rows)
        _take(db, checked, "flights_test", size.validation_rows)

    def arrays(self, size: Size) -> Data:
        training, checked = (_spread(part, rows) for part, rows in zip(_parts(), (size.rows, size.validation_rows)))
        words = {name: {word: code for code, word in enumerate(sorted(set(training[name])), 1)} for name in WORDS}
        numbers = training[list(NUMBERS)].to_numpy(np.float64)
        scale = numbers.mean(0), numbers.std(0)
        cardinalities = tuple(len(words[name]) + 1 for name in WORDS)
        return Data(_encoded(training, words, scale), _encoded(checked, words, scale), 2, cardinalities)

    def module(self, config: Config, data: Data) -> nn.Module:
        return plain.build(config.architecture, (len(NUMBERS), data.cardinalities, data.classes))


def _take(db: PsycopgDatabase, name: str, source: str, rows: Optional[int]) -> None:
    db.rows(fill(_PART, name=ident(name), source=ident(source)), rows=rows or 1 << 31)


@lru_cache(maxsize=1)
def _parts() -> Tuple[pd.DataFrame, pd.DataFrame]:
    """What `load_flights` makes: flights with a known label and departure, and every tenth of all for testing."""
    with zipfile.ZipFile(flights_file()) as files, files.open("flights.csv") as lines:
        whole = pd.read_csv(lines)
    dates = pd.to_datetime(whole[["year", "month", "day"]])
    frame = pd.DataFrame({name: whole[name] for name in ("month", "day", "dep_delay", "distance", *WORDS)})
    frame["weekday"] = dates.dt.day_of_week + 1
    for name in ("dep", "arr"):
        clock = whole[f"sched_{name}_time"]
        frame[f"sched_{name}_minute"] = clock // 100 * 60 + clock % 100
    frame["late"] = whole["arr_delay"] > LATE_MINUTES
    tested = pd.Series(np.arange(1, len(whole) + 1) % 10 == 0)
    known = whole["arr_delay"].notna() & whole["dep_delay"].notna()
    return frame[known & ~tested], frame[known & tested]


def _spread(frame: pd.DataFrame, rows: Optional[int]) -> pd.DataFrame:
    wanted = min(len(frame), rows or len(frame))
    places = np.arange(len(frame))
    taken: pd.DataFrame = frame.iloc[places[places * wanted % len(frame) < wanted].tolist()]
    return taken


def _encoded(
    frame: pd.DataFrame, words: Dict[str, Dict[str, int]], scale: Tuple[np.ndarray, np.ndarray]
) -> Arrays:
    numbers = (frame[list(NUMBERS)].to_numpy(np.float32) - scale[0].astype(np.float32)) / scale[1].astype(np.float32)
    codes = np.stack([frame[name].map(words[name]).fillna(0).to_numpy(np.int64) for name in WORDS], 1)
    labels = torch.from_numpy(frame["late"].to_numpy(np.int64))
    return Arrays((torch.from_numpy(numbers), torch.from_numpy(codes)), labels)
