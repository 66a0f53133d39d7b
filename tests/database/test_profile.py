"""Option profile: where the time of each hop went, stored with the hop."""

from __future__ import annotations

import pytest

from cerebro_db.client import PsycopgDatabase
from cerebro_db.phases import PHASES
from cerebro_db.report import read_run, render
from tests import runs
from tests.runs import sql

SEGMENTS, EPOCHS = 2, 2
CONFIGS: runs.Configs = {1: (runs.MLP, runs.ADAM, "batch_size=8"), 2: (runs.MLP, runs.ADAM, "batch_size=8")}
#: Rows of a segment make so many batches of 8.
BATCHES = 5
TITLE = "Where the time of the hops went"

pytestmark = pytest.mark.postgresql("Greenplum's segments have no clock for it")


@pytest.fixture(scope="module")
def packed(pg_module: PsycopgDatabase) -> PsycopgDatabase:
    runs.make_images(pg_module, "images", SEGMENTS * BATCHES * 8)
    runs.pack(pg_module, "images", "packed", SEGMENTS)
    runs.make_selection(pg_module, "two", CONFIGS)
    return pg_module


@pytest.mark.parametrize(("strategy", "fuse"), [("in_rdbms", "off"), ("in_rdbms", "always"), ("streaming", "off")])
def test_phases_of_every_hop_add_up_to_its_time(packed: PsycopgDatabase, strategy: str, fuse: str) -> None:
    output = f"out_{strategy}_{fuse}"
    row = runs.fit(
        packed, "packed", output, "two", EPOCHS, validation="packed", threads=1, profile=True, strategy=strategy,
        fuse=fuse,
    )  # fmt: skip
    found = packed.rows(sql("select * from cerebro.profile where run_id = %(run_id)s"), run_id=row["run_id"])
    hops = runs.hops(packed, row["run_id"])
    assert len(hops) == len(CONFIGS) * EPOCHS * SEGMENTS
    assert {each["phase"] for each in found} <= set(PHASES)
    for hop in hops:
        key = (hop["mst_key"], hop["epoch"], hop["segment_id"])
        spent = {each["phase"]: each for each in found if (each["mst_key"], each["epoch"], each["segment_id"]) == key}
        assert {phase: spent[phase]["calls"] for phase in ("forward", "loss", "backward", "optimizer")} == {
            "forward": BATCHES, "loss": BATCHES, "backward": BATCHES, "optimizer": BATCHES,
        }  # fmt: skip
        assert ("validation" in spent) == (hop["validation_rows"] is not None)
        parts = sum(hop[f"{part}_seconds"] for part in ("train", "validate", "data", "hop", "start"))
        total = sum(each["seconds"] for each in spent.values())
        assert parts * 0.5 < total < parts + 0.5  # of it, recording the hop came after the parts were taken
    assert TITLE in render(read_run(packed, row["run_id"]))
    packed.rows(sql("select madlib_mop_forget(%(run_id)s::int)"), run_id=row["run_id"])
    assert packed.rows(sql("select * from cerebro.profile where run_id = %(run_id)s"), run_id=row["run_id"]) == []


def test_without_the_option_nothing_is_stored(packed: PsycopgDatabase) -> None:
    row = runs.fit(packed, "packed", "out_plain", "two", 1, threads=1)
    assert packed.rows(sql("select * from cerebro.profile where run_id = %(run_id)s"), run_id=row["run_id"]) == []
    assert TITLE not in render(read_run(packed, row["run_id"]))
