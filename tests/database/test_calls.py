"""fit and resume with the coordinator in this very process, by strategy hybrid."""

from __future__ import annotations

import signal
import threading
import time
from typing import Any, Callable, Iterator

import psycopg2
import pytest
from sqlalchemy import create_engine

import cerebro_db
from cerebro_db import calls
from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.database import one
from cerebro_db.errors import CancelledError, ExistsError, RunError, SetupError
from cerebro_db.planning import FitRequest
from cerebro_db.sqltext import ident
from tests import runs
from tests.runs import sql
from tests.support import wait_until

#: Long enough to be ended in the middle.
LONG = 200
OPTIONS = {"threads": 1}


@pytest.fixture(scope="module")
def data(pg_module: PsycopgDatabase) -> PsycopgDatabase:
    make_data(pg_module)
    return pg_module


def make_data(database: PsycopgDatabase) -> None:
    """packed: 120 images over 2 segments, s: two configs; everybody may read them."""
    runs.make_images(database, "pics", 120)
    runs.pack(database, "pics", "packed", segments=2)
    runs.make_selection(database, "s", {key: (runs.MLP, runs.ADAM, f"batch_size={8 * key}") for key in (1, 2)})
    database.script(sql("grant select on all tables in schema public to public"))


@pytest.fixture
def begun(data: PsycopgDatabase, pg_module_dsn: str) -> Iterator[Callable[..., Any]]:
    """Begins a fit in this process: its call, and its run as soon as it has a finished hop."""
    sessions = []

    def begin(output: str, epochs: int = LONG) -> Any:
        before = runs.newest(data)
        sessions.append(connect(pg_module_dsn))
        session = sessions[-1]
        request = FitRequest("packed", output, "s", epochs, strategy="hybrid", options='{"threads": 1}')
        call = calls.fit(session, request)
        wait_until(lambda: call.ended(0) or runs.newest(data) > before, 60, "the run begins")
        run_id = runs.newest(data)
        wait_until(lambda: call.ended(0) or bool(runs.hops(data, run_id)), 60, "a hop is finished")
        return call, run_id

    yield begin
    for session in sessions:
        session.close()


def test_every_way_to_hybrid_gives_the_bits_of_in_rdbms(data: PsycopgDatabase, pg_module_dsn: str) -> None:
    made = cerebro_db.fit(pg_module_dsn, "packed", "a", "s", 2, options=OPTIONS)
    assert made.summary.loc[0, "strategy"] == "in_rdbms"
    made = cerebro_db.fit(pg_module_dsn, "packed", "b", "s", 2, strategy="hybrid", options=OPTIONS)
    assert made.summary.loc[0, "strategy"] == "hybrid"
    runs.fit(data, "packed", "c", "s", 2, strategy="hybrid", **OPTIONS)
    with connect(pg_module_dsn) as session:
        session.script(sql("set cerebro.strategy = 'hybrid'"))
        runs.fit(session, "packed", "d", "s", 2, **OPTIONS)
    assert one(data, sql("select strategy from d_summary")) == {"strategy": "hybrid"}
    for key in (1, 2):
        assert len({runs.weights(data, output, key) for output in "abcd"}) == 1
    runs.no_helpers(data)


def test_a_cancel_from_another_session(data: PsycopgDatabase, begun: Any) -> None:
    call, run_id = begun("cancelled")
    assert one(data, sql("select madlib_mop_cancel(%(run_id)s::int) as done"), run_id=run_id) == {"done": True}
    assert call.ended(3)
    with pytest.raises(CancelledError, match=f"run {run_id} was cancelled from another session"):
        call.result()
    runs.no_helpers(data)
    assert runs.status(data, run_id) == "cancelled"


def test_only_the_owner_cancels(data: PsycopgDatabase, pg_module_dsn: str, begun: Any, role: Any) -> None:
    call, run_id = begun("kept")
    mallory = connect(role("mallory").dsn, dbname=data.connection.info.dbname)
    with mallory, pytest.raises(psycopg2.Error, match="does not exist or belongs to another role"):
        one(mallory, sql("select cerebro_private.cancel_run(%(run_id)s::int)"), run_id=run_id)
    assert not call.ended(1.5)
    call.cancel()
    with pytest.raises(CancelledError, match="cancelled by its caller"):
        call.result()
    assert runs.status(data, run_id) == "cancelled"
    runs.no_helpers(data)


@pytest.mark.parametrize(("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
def test_a_signal_cancels(data: PsycopgDatabase, pg_module_dsn: str, number: signal.Signals, raised: Any) -> None:
    before = runs.newest(data)
    sent = []

    def interrupt() -> None:
        with connect(pg_module_dsn) as session:
            wait_until(lambda: runs.newest(session) > before, 60, "the run begins")
            wait_until(lambda: bool(runs.hops(session, runs.newest(session))), 60, "a hop is finished")
        sent.append(time.monotonic())
        signal.pthread_kill(threading.main_thread().ident or 0, number)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(raised):
        cerebro_db.fit(pg_module_dsn, "packed", "signalled", "s", LONG, strategy="hybrid", options=OPTIONS)
    assert time.monotonic() - sent[0] < 3
    thread.join()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert runs.status(data, runs.newest(data)) == "cancelled"
    runs.no_helpers(data)
    run = cerebro_db.find_run(pg_module_dsn, runs.newest(data))
    assert run.progress.loc[0, "hops_done"] > 0


def test_packing_gives_way_to_a_cancel(data: PsycopgDatabase, pg_module_dsn: str) -> None:
    """The coordinator waits for a long statement then, which is cancelled in the server."""
    data.script(sql("create view slow as select * from pics where pg_sleep(0.1) is not null"))
    options = '{"dependent_varname": "label", "independent_varname": "img"}'
    with connect(pg_module_dsn) as session:
        call = calls.fit(session, FitRequest("slow", "never", "s", 1, strategy="hybrid", options=options))
        packing = sql(
            "select 1 from pg_stat_activity"
            " where application_name = 'cerebro' and state = 'active' and query ~ 'from \"public\".\"slow\"'"
        )
        wait_until(lambda: bool(data.rows(packing)), 60, "packing begins")
        asked = time.monotonic()
        call.cancel()
        with pytest.raises(CancelledError):
            call.result()
        assert time.monotonic() - asked < 3
    runs.no_helpers(data)
    assert data.rows(sql("select relname from pg_class where relname ~ '^(never|slow_)'")) == []


def test_outputs_are_written_together_or_not_at_all(data: PsycopgDatabase, pg_module_dsn: str, begun: Any) -> None:
    call, run_id = begun("late", epochs=40)
    data.script(sql("create table late_info (taken integer)"))
    with pytest.raises(RunError, match='relation "late_info" already exists'):
        call.result()
    assert one(data, sql("select to_regclass('late')::text as made")) == {"made": None}
    assert runs.status(data, run_id) == "trained"
    with pytest.raises(ExistsError, match="late_info already exists"):
        cerebro_db.resume(pg_module_dsn, run_id)
    data.script(sql("drop table late_info"))
    assert len(cerebro_db.resume(pg_module_dsn, run_id).info) == 2
    assert runs.keys(runs.hops(data, run_id)) == runs.every_hop([1, 2], 40, 2)


def test_a_callers_transaction_is_left_to_the_caller(data: PsycopgDatabase, pg_module_dsn: str) -> None:
    plain = create_engine("postgresql+psycopg2://", creator=lambda: psycopg2.connect(pg_module_dsn))
    with plain.connect() as connection:
        made = cerebro_db.fit(connection, "packed", "undone", "s", strategy="hybrid", options=OPTIONS)
        assert made.run.loc[0, "status"] == "finished"
        connection.rollback()
        assert one(data, sql("select to_regclass('undone')::text as made")) == {"made": None}
        cerebro_db.resume(connection, made.run_id)
        connection.commit()
    assert one(data, sql("select count(*) as n from undone")) == {"n": 2}
    by_engine = cerebro_db.fit(plain, "packed", "by_engine", "s", strategy="hybrid", options=OPTIONS)
    assert by_engine.run.loc[0, "status"] == "finished"


def test_the_role_that_the_caller_took_is_kept(pg: PsycopgDatabase, pg_dsn: str, role: Any) -> None:
    make_data(pg)
    name = role('an "odd" name').name
    taken = ident(name)
    with connect(pg_dsn) as session:
        for output, before in (("one", f"set role {taken}"), ("two", f"reset role; set session authorization {taken}")):
            session.script(sql(before))
            call = calls.fit(session, FitRequest("packed", output, "s", 1, strategy="hybrid"))
            assert calls.waited(call)["status"] == "finished"
            assert one(session, sql("select current_user::text as name")) == {"name": name}
    owners = sql(
        "select tablename::text as made, tableowner::text as owner from pg_tables"
        " where tablename in ('one', 'two_info')"
        " union all select model_output_table, owner::text from cerebro.run order by made"
    )
    assert [(row["made"], row["owner"]) for row in pg.rows(owners)] == [
        ("one", name), ("public.one", name), ("public.two", name), ("two_info", name),
    ]  # fmt: skip


def test_a_role_with_a_password(pg: PsycopgDatabase, role: Any) -> None:
    make_data(pg)
    call = calls.fit(role("ana")(), FitRequest("packed", "by_password", "s", 1, strategy="hybrid"))
    assert calls.waited(call)["status"] == "finished"


@pytest.mark.parametrize("strategy", ["in_rdbms", "hybrid"])
def test_a_server_without_the_functions_is_refused_before_anything_is_made(
    pg: PsycopgDatabase, pg_dsn: str, strategy: str
) -> None:
    runs.make_images(pg, "pics", 20)
    runs.make_selection(pg, "s", {1: (runs.MLP, runs.ADAM, "batch_size=8")})
    pg.script(sql("drop function cerebro_private.train_hop(integer, integer[], integer, integer, boolean)"))
    before = runs.relations(pg)
    told = f"strategy {strategy} trains in functions of the server, .* lacks cerebro_private.train_hop.* plpython3u"
    options = {"dependent_varname": "label", "independent_varname": "img"}
    with pytest.raises(SetupError, match=told):
        cerebro_db.fit(pg_dsn, "pics", "out", "s", strategy=strategy, options=options)
    with pytest.raises(psycopg2.Error, match=told):
        runs.fit(pg, "pics", "out", "s", 1, strategy=strategy, **options)
    assert runs.relations(pg) == before


def test_a_database_without_cerebro(empty_dsn: str) -> None:
    with pytest.raises(SetupError, match="is not installed in database .* 'cerebro-db install'"):
        cerebro_db.fit(empty_dsn, "a", "b", "c")
