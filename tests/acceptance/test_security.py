"""Who may do what: nothing for PUBLIC, the whole job for cerebro_user, and never more than the caller's rights."""

from __future__ import annotations

import json
from typing import Any, Iterator, List

import psycopg2
import pytest

from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.cluster import Cluster, temporary_cluster
from cerebro_db.install import install
from tests import runs
from tests.conftest import _make_role
from tests.runs import Running, sql

COLUMNS = {"dependent_varname": "label", "independent_varname": "img"}
#: What a function in a table's view tries while a run reads it.
ATTEMPTS = [
    "set role postgres",
    "set session authorization postgres",
    "create role mallory superuser",
    "grant postgres to current_user",
    "copy (select 1) to program 'true'",
    "select pg_read_file('PG_VERSION')",
    "select count(*) from public.hidden",
    "select count(*) from cerebro_private.run",
    "reset session authorization",
    "reset role",
    "create table if not exists public.ghost (made_by text default current_user)",
]
ALLOWED = {"reset session authorization", "reset role", ATTEMPTS[-1]}


class Stage:
    """A server that logs every statement, a superuser's session, and three plain roles on it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.dsn = cluster.dsn("postgres")
        self.admin = connect(self.dsn)
        self.alice = _make_role(self.dsn, "alice", member=True)
        self.bob = _make_role(self.dsn, "bob", member=True)
        self.nobody = _make_role(self.dsn, "nobody", member=False)

    def log(self) -> str:
        return self.cluster.log.read_text("utf-8")


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with temporary_cluster({"log_statement": "all", "shared_buffers": "128MB", **runs.KEEP_NOTHING}) as cluster:
        with connect(cluster.dsn("postgres")) as database:
            install(database)
            runs.make_images(database, "images", 300)
            database.script(
                sql(
                    "create table hidden as table images; create table shared as table images;"
                    "alter table shared enable row level security;"
                    "create policy first_ones on shared using (id <= 200); grant select on shared to public"
                )
            )
        made = Stage(cluster)
        yield made
        made.admin.close()


def refused(session: PsycopgDatabase, text: str, code: str, **values: Any) -> str:
    """Fail unless the statement is refused with this SQLSTATE; gives the message."""
    with pytest.raises(psycopg2.Error) as info:
        session.rows(sql(text), **values)
    assert info.value.pgcode == code, f"{text}: {info.value}"
    return str(info.value)


def test_public_can_call_and_read_nothing(stage: Stage) -> None:
    functions = stage.admin.rows(
        sql(
            "select p.oid::regprocedure::text as name, has_function_privilege('nobody', p.oid, 'execute') as may"
            "  from pg_proc p where p.pronamespace in ('cerebro'::regnamespace, 'cerebro_private'::regnamespace)"
        )
    )
    assert len(functions) > 30
    assert [row["name"] for row in functions if row["may"]] == []
    relations = stage.admin.rows(
        sql(
            "select c.oid::regclass::text as name"
            "     , has_table_privilege('nobody', c.oid, 'select, insert, update, delete, truncate, trigger') as may"
            "  from pg_class c where c.relkind in ('r', 'v', 'p', 'm')"
            "   and c.relnamespace in ('cerebro'::regnamespace, 'cerebro_private'::regnamespace)"
        )
    )
    assert len(relations) > 10
    assert [row["name"] for row in relations if row["may"]] == []
    session = stage.nobody()
    refused(session, "select * from cerebro.run", "42501")
    refused(session, "select cerebro.madlib_mop_status()", "42501")
    nulls = ", ".join(["null"] * 11)
    refused(session, f"select cerebro_private.start_run({nulls})", "42501")


def test_no_role_but_the_superuser_touches_the_tables_of_the_catalog(stage: Stage) -> None:
    rows = stage.admin.rows(
        sql(
            "select c.oid::regclass::text as name from pg_class c"
            " where c.relnamespace = 'cerebro_private'::regnamespace and c.relkind in ('r', 'S')"
            "   and case when c.relkind = 'S' then has_sequence_privilege('alice', c.oid, 'usage, select, update')"
            "            else has_table_privilege('alice', c.oid, 'select, insert, update, delete, truncate') end"
        )
    )
    assert rows == []


@pytest.fixture(scope="module")
def job(stage: Stage) -> int:
    """The whole job by a plain role over TCP, a cancel and a resume in it; gives the run."""
    session = stage.alice()
    assert session.rows(sql("select inet_client_addr() is not null as tcp"))[0]["tcp"]
    session.rows(sql("select load_model_arch('arch', %(arch)s::json)"), arch=json.dumps(runs.MLP))
    session.rows(
        sql("select load_model_selection_table('arch', 'mst', array[1], array[%(compiled)s], array['batch_size=8'])"),
        compiled=json.dumps(runs.ADAM),
    )
    assert session.rows(sql("select * from madlib_mop_status()")) == []  # imports now what the cancel needs
    values = runs.fit_values("shared", "out", "mst", 100, threads=1, segments=2, **COLUMNS)
    running = Running(stage.alice.dsn, runs.FIT, **values)
    asked: List[str] = []

    def enough() -> bool:
        assert running.running, running.error
        asked.extend(row["query"] for row in stage.admin.rows(sql("select query from pg_stat_activity")))
        return bool(stage.admin.rows(sql("select 1 from cerebro.hop having count(*) > 5")))

    runs.wait_until(enough, 60, "hops are finished")
    (run,) = session.rows(sql("select run_id, status from cerebro.run"))
    assert run["status"] == "running"
    assert runs.session_roles(stage.admin) != []
    assert session.rows(sql("select madlib_mop_cancel(%(run_id)s::int) as done"), run_id=run["run_id"])[0]["done"]
    assert running.failed().pgcode == "57014"
    running.close()
    runs.no_helpers(stage.admin)
    secrets = {text for text in asked if text and "password '" in text}
    assert all("password 'SCRAM-SHA-256$" in text for text in secrets), secrets
    assert runs.resume(session, run["run_id"])["status"] == "finished"
    runs.no_helpers(stage.admin)
    return int(run["run_id"])


def test_a_plain_role_does_the_whole_job_on_the_rows_it_may_see(stage: Stage, job: int) -> None:
    session = stage.alice()
    (status,) = session.rows(sql("select * from madlib_mop_status(%(run_id)s::int)"), run_id=job)
    assert (status["status"], status["hops_done"], status["hops_total"]) == ("finished", 200, 200)
    assert session.rows(sql("select count(*) as n from out"))[0]["n"] == 1
    packed = session.rows(sql("select sum(label_shape[1]) as rows from shared_packed"))
    assert packed[0]["rows"] == 200  # of 300: row-level security holds in the sessions of the run
    owners = stage.admin.rows(
        sql(
            "select distinct tableowner as owner from pg_tables"
            " where tablename in ('out', 'out_info', 'shared_packed')"
        )
    )
    assert [row["owner"] for row in owners] == ["alice"]


def test_no_password_reaches_the_log(stage: Stage, job: int) -> None:
    lines = [line for line in stage.log().splitlines() if "password" in line.lower()]
    made = [line for line in lines if "cerebro_session_" in line]
    assert len(made) >= 2  # one for the fit, one for the resume
    assert all("password 'SCRAM-SHA-256$" in line for line in made)
    for role in (stage.alice, stage.bob, stage.nobody):
        assert stage.log().count(role.password) == 1  # where this test made the role


def test_another_user_sees_and_touches_nothing_of_a_run(stage: Stage, job: int) -> None:
    bob = stage.bob()
    for view in ("run", "config", "hop", "metric", "segment", "progress"):
        assert bob.rows(sql(f"select * from cerebro.{view}")) == []
    for name in ("resume", "cancel", "forget", "status"):
        told = refused(bob, f"select madlib_mop_{name}({job})", "42704")
        assert f"run {job} does not exist or belongs to another role" in told
    internal = stage.admin.rows(
        sql(
            "select proname, pronargs from pg_proc where pronamespace = 'cerebro_private'::regnamespace"
            " and proargnames[1] = 'run_id' and prokind = 'f'"
            " and proname not in ('is_coordinated', 'state_name', 'round_name', 'train_hop', 'train_round')"
        )
    )
    assert {"load_state", "save_state", "clear_state", "save_hop", "plan", "claim_run", "final_state"} <= {
        row["proname"] for row in internal
    }
    for row in internal:
        arguments = ", ".join([str(job), *["null"] * (row["pronargs"] - 1)])
        refused(bob, f"select * from cerebro_private.{row['proname']}({arguments})", "42704")
    for suffix in ("", "_info", "_summary"):
        refused(bob, f"select * from out{suffix}", "42501")
    stage.alice().script(sql("grant select on out to bob"))
    assert bob.rows(sql("select count(*) as n from out"))[0]["n"] == 1


def test_no_user_can_cancel_a_session_by_naming_it_as_coordinator(stage: Stage) -> None:
    bob, again = stage.bob(), stage.bob()
    plan = "'x', 'x', null, 'x', 'x', 1, 'in_rdbms', 'loss', '{}'::json, null, null"
    run_id = bob.rows(sql(f"select cerebro_private.start_run({plan}) as run_id"))[0]["run_id"]
    victim = Running(stage.dsn, sql("select pg_sleep(2)"))
    claim = sql("select cerebro_private.claim_run(%(run_id)s::int, %(pid)s::int) as claimed")
    assert bob.rows(claim, run_id=run_id, pid=victim.pid)[0]["claimed"]
    assert again.rows(sql(f"select madlib_mop_cancel({run_id}) as done")) == [{"done": True}]  # a wish, and no signal
    victim.finished()
    victim.close()


def test_a_source_without_select_is_refused_in_the_sessions_too(stage: Stage, job: int) -> None:
    session = stage.alice()
    before = runs.relations(stage.admin)
    values = runs.fit_values("hidden", "never", "mst", 1, **COLUMNS)
    with pytest.raises(psycopg2.Error, match="permission denied for table hidden") as info:
        session.rows(runs.FIT, **values)
    assert info.value.pgcode == "42501"
    assert runs.relations(stage.admin) == before


def test_code_in_a_table_gains_nothing(stage: Stage, job: int) -> None:
    """A packed table that is a view: its function runs in every session of the run that reads rows."""
    session = stage.alice()
    session.script(
        sql(
            "create table loot (session name, attempt text, outcome text, superuser text);"
            "create function spy() returns boolean language plpgsql as $body$"
            " declare attempt text;"
            " begin"
            "   foreach attempt in array array["
            + ", ".join("$$" + attempt + "$$" for attempt in ATTEMPTS)
            + "] loop"
            "     begin"
            "       execute attempt;"
            "       insert into public.loot values (session_user, attempt, 'done', current_setting('is_superuser'));"
            "     exception when others then"
            "       insert into public.loot values (session_user, attempt, sqlstate, current_setting('is_superuser'));"
            "     end;"
            "   end loop;"
            "   return true;"
            " end $body$;"
            "create view evil as select p.* from shared_packed p where public.spy();"
            "create view evil_summary as select * from shared_packed_summary"
        )
    )
    row = runs.fit(session, "evil", "evil_out", "mst", 1, threads=1)
    assert row["status"] == "finished"
    loot = stage.admin.rows(sql("select * from loot"))
    assert {row["superuser"] for row in loot} == {"off"}
    sessions = {row["session"] for row in loot}
    assert any(name.startswith("cerebro_session_") for name in sessions), sessions
    done = {row["attempt"] for row in loot if row["outcome"] == "done"}
    assert done <= ALLOWED, done
    assert {row["attempt"] for row in loot} == set(ATTEMPTS)
    # What was made under the name of the run's role belongs to the caller now, and the role is gone.
    owner = stage.admin.rows(sql("select tableowner from pg_tables where tablename = 'ghost'"))
    assert owner == [{"tableowner": "alice"}]
    runs.no_helpers(stage.admin)
    assert stage.admin.rows(sql("select 1 from pg_roles where rolname = 'mallory'")) == []


def test_roles_left_by_a_crash_are_dropped_by_the_next_call(stage: Stage, job: int) -> None:
    """Whoever calls next, also when the first call's role owned something."""
    stage.admin.script(
        sql(
            "create role cerebro_session_1_1 login in role alice;"
            "create table left_behind (x int); alter table left_behind owner to cerebro_session_1_1"
        )
    )
    bob = stage.bob()
    with pytest.raises(psycopg2.Error, match="'nothing' does not exist|nothing does not exist"):
        runs.fit(bob, "shared", "never", "nothing", 1)
    assert runs.session_roles(stage.admin) == []
    owner = stage.admin.rows(sql("select tableowner from pg_tables where tablename = 'left_behind'"))
    assert owner == [{"tableowner": "alice"}]


def test_too_few_connections_are_said_at_once(stage: Stage, job: int) -> None:
    session = stage.alice()
    count = "select count(*) as n from pg_stat_activity where datname = current_database()"
    now = stage.admin.rows(sql(count))[0]["n"]
    before = runs.relations(stage.admin)
    stage.admin.script(sql(f"alter database postgres connection limit {now + 2}"))
    try:
        with pytest.raises(psycopg2.Error, match=r"cannot (start|open).*too many connections.*free connections"):
            runs.fit(session, "shared_packed", "never", "mst", 1)
    finally:
        stage.admin.script(sql("alter database postgres connection limit -1"))
    runs.no_helpers(stage.admin)
    assert runs.relations(stage.admin) == before
