"""What one host of a Greenplum lacks is told before anything is made, with the host and the remedy."""

from __future__ import annotations

from typing import Callable, Iterator

import psycopg2
import pytest

from cerebro_db.client import PsycopgDatabase, connect
from tests import runs
from tests.runs import sql

SEGMENTS = 3
#: The segment whose host is to lack something.
ODD = 1
CONFIGS: runs.Configs = {1: (runs.MLP, runs.ADAM, "batch_size=16")}
STRATEGIES = ["in_rdbms", "hybrid"]
Pretend = Callable[[str, str], None]


@pytest.fixture(scope="module")
def data(gp_server: str, pg_module: PsycopgDatabase) -> PsycopgDatabase:
    runs.make_images(pg_module, "images", 60)
    runs.pack(pg_module, "images", "packed", SEGMENTS)
    runs.make_selection(pg_module, "one", CONFIGS)
    return pg_module


@pytest.fixture
def database(data: PsycopgDatabase, pg_module_dsn: str) -> Iterator[PsycopgDatabase]:
    with connect(pg_module_dsn) as session:
        yield session


@pytest.fixture
def pretend(database: PsycopgDatabase) -> Iterator[Pretend]:
    """Has the host of one segment say other facts than it has, by a regular expression and what stands in its place."""
    database.script(sql("alter function cerebro_private.facts_here() rename to facts_found"))

    def odd(pattern: str, instead: str) -> None:
        database.script(
            sql(
                "create function cerebro_private.facts_here() returns text language plpgsql volatile as $body$ begin"
                f" if current_setting('gp_contentid') = '{ODD}' then"
                f" return regexp_replace(cerebro_private.facts_found(), '{pattern}', '{instead}'); end if;"
                " return cerebro_private.facts_found(); end $body$"
            )
        )

    yield odd
    database.script(sql("drop function if exists cerebro_private.facts_here()"))
    database.script(sql("alter function cerebro_private.facts_found() rename to facts_here"))


LACKS = ('"torch", "value": "[^"]*", "ok": true, "remedy": ""',
         '"torch", "value": "missing", "ok": false, "remedy": "pip install torch"')  # fmt: skip
OLDER = ('"torch", "value": "[^ "]+', '"torch", "value": "2.12.0')


def odd_host(database: PsycopgDatabase) -> str:
    (row,) = database.rows(
        sql("select hostname::text as host from gp_segment_configuration where role = 'p' and content = 1")
    )
    return str(row["host"])


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    ("fake", "state", "remedy"),
    [
        (LACKS, "torch is missing on ", "pip install torch"),
        (OLDER, "torch is 2.12.0 instead of ", "have the same version on every host"),
    ],
)
def test_a_fit_that_one_host_could_not_train_leaves_nothing(
    database: PsycopgDatabase, pretend: Pretend, strategy: str, fake: tuple[str, str], state: str, remedy: str
) -> None:
    pretend(*fake)
    before = runs.relations(database), database.rows(sql("select count(*) as n from cerebro.run"))
    with pytest.raises(psycopg2.Error) as caught:
        runs.fit(database, "packed", "never", "one", 1, strategy=strategy)
    told = str(caught.value.diag.message_primary)
    assert told.startswith(f"cerebro: {state}")
    assert f"on {odd_host(database)}" in told
    assert f", where strategy {strategy} trains: " in told
    assert told.endswith(remedy)
    assert (runs.relations(database), database.rows(sql("select count(*) as n from cerebro.run"))) == before


@pytest.mark.parametrize(("fake", "state"), [(LACKS, "missing"), (OLDER, "2.12.0 instead of ")])
def test_the_check_names_the_host_that_differs(
    database: PsycopgDatabase, pretend: Pretend, fake: tuple[str, str], state: str
) -> None:
    pretend(*fake)
    wrong = database.rows(sql("select * from madlib_mop_check() where not ok and item like '%%: torch'"))
    assert len(wrong) == 1
    assert wrong[0]["item"].startswith(odd_host(database))
    assert wrong[0]["value"].startswith(state)
    assert wrong[0]["remedy"] != ""


def test_torch_missing_on_every_host_is_told_by_the_first_that_needs_it(
    database: PsycopgDatabase, pg_module_dsn: str, python_path: str
) -> None:
    """The database's own search path leads to the package alone."""
    path, name = python_path.split(":")[0], database.connection.info.dbname
    database.script(sql("load 'plpython3'"))
    database.script(sql(f"alter database {name} set plpython3.python_path = '{path}'"))
    try:
        with connect(pg_module_dsn) as session:
            wrong = session.rows(sql("select item from madlib_mop_check() where not ok and value = 'missing'"))
            assert {f"{odd_host(database)}{part}: torch" for part in ("", f" (segment {ODD})")} & {
                row["item"] for row in wrong
            }
        with connect(pg_module_dsn) as session, pytest.raises(psycopg2.Error, match="torch|numpy") as caught:
            runs.fit(session, "packed", "never", "one", 1)
        assert str(caught.value.diag.message_primary).startswith("cerebro: ")
    finally:
        database.script(sql(f"alter database {name} set plpython3.python_path = '{python_path}'"))
