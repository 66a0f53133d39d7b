"""A fit on a table that is not packed: it packs a copy, and uses that again while the source is unchanged."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import psycopg2
import pytest

from cerebro_db.client import PsycopgDatabase
from cerebro_db.database import one
from tests.preprocessing import relations
from tests.runs import ADAM, fit, make_selection, sql

#: Options that stand for the arguments of training_preprocessor_dl.
COLUMNS = {"dependent_varname": "late", "independent_varname": "delay, carrier", "nulls": "drop", "segments": 2}


@pytest.fixture
def flights(pg: PsycopgDatabase) -> PsycopgDatabase:
    """flights: 40 rows, 4 of them with a NULL; more: 20 rows without; s: one config."""
    pg.script(sql(
        "create table flights as select i as id, case when i % 10 > 0 then i * 0.5 end as delay"
        ", 'c' || i % 3 as carrier, i % 20 > 9 as late from generate_series(1, 40) i;"
        "create table more as select * from flights where delay is not null limit 20"
    ))
    make_selection(pg, "s", {1: ({"model": "tabular", "hidden": [4]}, ADAM, "batch_size=8")})
    return pg


def train(database: PsycopgDatabase, output: str, validation: Optional[str] = None, **changed: Any) -> Dict[str, Any]:
    return fit(database, "flights", output, "s", 1, validation=validation, **{**COLUMNS, **changed})


def copies(database: PsycopgDatabase, *tables: str) -> List[int]:
    text = "select %(table)s::regclass::oid::bigint as oid"
    return [one(database, sql(text), table=table)["oid"] for table in tables]


def test_a_copy_is_made_once_and_used_again(flights: PsycopgDatabase) -> None:
    assert train(flights, "a", validation="more")["status"] == "finished"
    made = copies(flights, "flights_packed", "more_packed")
    summary = one(flights, sql("select rows, nulls, dropped_rows, segments from flights_packed_summary"))
    assert summary == {"rows": 36, "nulls": "drop", "dropped_rows": 4, "segments": 2}
    trained = one(flights, sql("select source_table, packed_table from a_summary"))
    assert trained == {"source_table": "public.flights", "packed_table": "public.flights_packed"}
    train(flights, "b", validation="more")
    assert copies(flights, "flights_packed", "more_packed") == made


@pytest.mark.parametrize("change", [
    "update flights set delay = 1.5 where id = 1",
    "insert into flights values (41, 2, 'c9', true)",
    "delete from flights where id = 2",
])
def test_a_changed_source_is_packed_again(flights: PsycopgDatabase, change: str) -> None:
    train(flights, "a")
    made = copies(flights, "flights_packed")
    flights.script(sql(change))
    train(flights, "b")
    assert copies(flights, "flights_packed") != made
    rows = one(flights, sql("select p.rows = (select count(*) from flights where delay is not null) as same"
                            " from flights_packed_summary p"))
    assert rows == {"same": True}


def test_other_options_make_another_copy(flights: PsycopgDatabase) -> None:
    train(flights, "a")
    made = copies(flights, "flights_packed")
    train(flights, "b", nulls="impute")
    assert copies(flights, "flights_packed") != made
    assert one(flights, sql("select rows, nulls from flights_packed_summary")) == {"rows": 40, "nulls": "impute"}


def test_training_rows_packed_again_pack_validation_rows_again(flights: PsycopgDatabase) -> None:
    train(flights, "a", validation="more")
    made = copies(flights, "more_packed")
    flights.script(sql("update flights set carrier = 'c7' where id = 1"))
    train(flights, "b", validation="more")
    assert copies(flights, "more_packed") != made


@pytest.mark.parametrize("made", [
    "create table flights_packed (id integer)",
    "create view flights_packed as select 1 as id",
    "select training_preprocessor_dl('more', 'flights_packed', 'late', 'delay')",
])
def test_a_table_of_that_name_is_never_touched(flights: PsycopgDatabase, made: str) -> None:
    flights.script(sql(made))
    before = relations(flights)
    with pytest.raises(psycopg2.Error, match="public.flights is not packed.*flights_packed, which exists"):
        train(flights, "a")
    assert relations(flights) == before


def test_a_view_over_an_old_copy_keeps_it(flights: PsycopgDatabase) -> None:
    train(flights, "a")
    flights.script(sql("create view mine as select * from flights_packed; delete from flights where id = 1"))
    before = relations(flights)
    with pytest.raises(psycopg2.Error, match="because view public.mine needs public.flights_packed; drop that"):
        train(flights, "b")
    assert relations(flights) == before
    flights.script(sql("drop view mine"))
    assert train(flights, "b")["status"] == "finished"


def test_without_its_columns_a_raw_table_is_refused(flights: PsycopgDatabase) -> None:
    before = relations(flights)
    with pytest.raises(psycopg2.Error, match="public.flights is not packed: run training_preprocessor_dl first"):
        fit(flights, "flights", "a", "s", 1)
    with pytest.raises(psycopg2.Error, match="'delay' has 4 NULLs in 40 rows"):
        train(flights, "a", nulls="refuse")
    assert relations(flights) == before
