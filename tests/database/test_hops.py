"""One segment's worker in this process: which states it reads again, and that it changes no bit not to."""

from __future__ import annotations

from functools import partial
from typing import Dict, List

import psycopg2
import pytest

from cerebro_db.catalog import Catalog
from cerebro_db.client import PsycopgDatabase
from cerebro_db.hops import SegmentWorker
from cerebro_db.packed_source import PackedSource
from cerebro_db.state_store import StateStore
from cerebro_db.visits import Place
from tests import runs

DROPOUT = {"model": "mlp", "hidden": [8], "dropout": 0.5}


@pytest.fixture
def run_id(pg: PsycopgDatabase, pg_dsn: str) -> int:
    """A run over one segment that was cancelled in its middle; later epochs are this process's."""
    runs.make_images(pg, "images", 50)
    runs.pack(pg, "images", "packed", 1)
    runs.make_selection(pg, "two", dict.fromkeys((1, 2), (DROPOUT, runs.ADAM, "batch_size=16")))
    running, found = runs.start_fit(pg_dsn, pg, "packed", "never", "two", 10_000, threads=1)
    running.cancelled(30)
    return found


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> List[int]:
    """The configs whose states were read."""
    read: List[int] = []
    load = StateStore.load

    def noted(self: StateStore, mst_key: int) -> Dict[str, bytes]:
        read.append(mst_key)
        return load(self, mst_key)

    monkeypatch.setattr(StateStore, "load", noted)
    return read


def worker(database: PsycopgDatabase, run_id: int) -> SegmentWorker:
    plan = Catalog(database, run_id).plan()
    place = Place(run_id, plan, plan.segments[0].segment_id)
    return SegmentWorker(database, place, partial(PackedSource, database, plan.layout.names), lambda: None)


def stored(database: PsycopgDatabase, run_id: int) -> List[Dict[str, bytes]]:
    return [StateStore(database, run_id).load(key) for key in (1, 2)]


@pytest.mark.parametrize("together", [False, True])
def test_a_state_that_stays_is_not_read_again(
    pg: PsycopgDatabase, run_id: int, loaded: List[int], together: bool
) -> None:
    groups = [(1, 2)] if together else [(1,), (2,)]
    before = stored(pg, run_id)
    found = []
    for stays in (True, False):
        for key, parts in zip((1, 2), before):
            with pg.transaction():
                StateStore(pg, run_id).save(key, [(part, 0, data) for part, data in parts.items()])
        pg.rows(runs.sql("delete from cerebro_private.hop where epoch > 20000"))
        loaded.clear()
        segment = worker(pg, run_id)
        for epoch in (20_001, 20_002, 20_003):
            for group in groups:
                segment.hop(group, epoch, True)
            segment = segment if stays else worker(pg, run_id)
        assert loaded == [1, 2] * (1 if stays else 3)
        found.append(stored(pg, run_id))
    assert found[0] == found[1] != before


def test_a_state_that_another_session_wrote_is_read(pg: PsycopgDatabase, run_id: int, loaded: List[int]) -> None:
    ours, theirs = worker(pg, run_id), worker(pg, run_id)
    ours.hop((1,), 20_001, True)
    theirs.hop((1,), 20_002, False)  # the first hop of the next epoch was elsewhere
    loaded.clear()
    with pytest.raises(psycopg2.errors.UniqueViolation):  # there is one segment, so this is the same hop
        ours.hop((1,), 20_002, True)
    assert loaded == [1]
