"""Installing: by psql and from Python alike, again without loss, all or nothing, and PUBLIC gets nothing."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Callable, Iterator, List

import psycopg2
import pytest

from cerebro_db import __version__
from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.errors import SetupError
from cerebro_db.install import install, pieces, uninstall
from cerebro_db.sqltext import Fragment
from tests.conftest import Role

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
CONTENTS = Fragment((HERE / "contents.sql").read_text("utf-8").replace("%", "%%"))
SEARCH_PATH = Fragment("""
    select c.line as path
      from pg_db_role_setting s join pg_database d on d.oid = s.setdatabase
     cross join lateral unnest(s.setconfig) as c (line)
     where d.datname = current_database() and s.setrole = 0 and c.line like 'search_path=%%'""")


@pytest.fixture
def empty(empty_dsn: str) -> Iterator[PsycopgDatabase]:
    with connect(empty_dsn) as database:
        yield database


def contents(database: PsycopgDatabase) -> List[str]:
    return [row["line"] for row in database.rows(CONTENTS)]


def search_path(database: PsycopgDatabase) -> List[str]:
    return [row["path"] for row in database.rows(SEARCH_PATH)]


def psql(dsn: str, script: Path) -> None:
    command = ["psql", "-Xq", "-f", str(script), dsn]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# -- what is installed -----------------------------------------------------------------------------


def test_contents_are_the_expected(pg: PsycopgDatabase) -> None:
    assert contents(pg) == (HERE / "contents.expected").read_text("utf-8").splitlines()


def test_psql_installs_the_same(pg: PsycopgDatabase, empty: PsycopgDatabase, empty_dsn: str) -> None:
    psql(empty_dsn, ROOT / "sql" / "install.sql")
    assert contents(empty) == contents(pg)
    assert search_path(empty) == ['search_path="$user", public, cerebro']


def test_psql_and_python_install_over_each_other(empty: PsycopgDatabase, empty_dsn: str) -> None:
    install(empty)
    psql(empty_dsn, ROOT / "sql" / "install.sql")
    install(empty)
    assert empty.rows(Fragment("select version from cerebro_private.version")) == [{"version": __version__}]


def test_installing_again_keeps_runs(pg: PsycopgDatabase) -> None:
    pg.script(
        Fragment("""
        insert into cerebro_private.run
               ( owner, source_table, packed_table, model_output_table, model_selection_table
               , num_iterations, strategy, plan)
        values (current_user, 's', 'p', 'o', 'm', 2, 'in_rdbms', '{}')""")
    )
    before = pg.rows(Fragment("select run_id, name, status, started_at from cerebro.run"))
    pg.script(Fragment("alter table cerebro_private.run drop column cancel_wished"))  # as it was before
    install(pg)
    assert pg.rows(Fragment("select run_id, name, status, started_at from cerebro.run")) == before
    assert len(before) == 1
    assert pg.rows(Fragment("select cancel_wished from cerebro_private.run")) == [{"cancel_wished": False}]


def test_new_sessions_find_the_functions(empty: PsycopgDatabase, empty_dsn: str) -> None:
    install(empty)
    with connect(empty_dsn) as later:
        assert later.rows(Fragment("select to_regproc('madlib_mop_check')::text as f")) == [
            {"f": "madlib_mop_check"}
        ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("public, tiger", "search_path=public, tiger, cerebro"),
        ("public, cerebro, tiger", "search_path=public, cerebro, tiger"),
        ("''", "search_path=cerebro"),
        ('"My Schema"', 'search_path="My Schema", cerebro'),
    ],
)
def test_a_search_path_is_kept(empty: PsycopgDatabase, before: str, after: str) -> None:
    name = empty.connection.info.dbname
    empty.script(Fragment(f'alter database "{name}" set search_path = {before}'))
    install(empty)
    assert search_path(empty) == [after]


@pytest.mark.parametrize("before", [None, "public, tiger"])
def test_uninstall_leaves_what_was_there(empty: PsycopgDatabase, before: str) -> None:
    name = empty.connection.info.dbname
    if before:
        empty.script(Fragment(f'alter database "{name}" set search_path = {before}'))
    install(empty)
    uninstall(empty)
    assert contents(empty) == []
    assert search_path(empty) == ([f"search_path={before}"] if before else [])
    uninstall(empty)


# -- what goes wrong -------------------------------------------------------------------------------


def test_a_plain_role_is_told_who_must_install(
    pg: PsycopgDatabase, role: Callable[..., Callable[[], PsycopgDatabase]]
) -> None:
    alice = role("alice")
    with pytest.raises(SetupError, match=r"or the owner of the database, and role alice_\w+ is neither; ask"):
        install(alice())


def test_an_error_leaves_nothing_behind(empty: PsycopgDatabase) -> None:
    empty.script(Fragment("create schema cerebro_private; create view cerebro_private.run as select 1"))
    with pytest.raises(SetupError, match="10_catalog.sql"):
        install(empty)
    assert contents(empty) == ['view cerebro_private.run("?column?" integer)']
    assert empty.rows(Fragment("select 1 as x from pg_namespace where nspname = 'cerebro'")) == []


def test_a_psql_command_that_is_not_known_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "x.sql"
    script.write_text("select 1;\n\\gexec\n")
    with pytest.raises(ValueError, match=r"x.sql: \\gexec"):
        list(pieces(script, "postgresql"))


def test_pieces_follow_includes_in_order(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.sql").write_text("b;\n\\ir ../c.sql\n")
    (tmp_path / "c.sql").write_text("c;\n")
    (tmp_path / "a.sql").write_text("\\set ON_ERROR_STOP on\na;\n\\echo now b\n\\ir sub/b.sql\nd;\n")
    found = [(file.name, sql.strip()) for file, sql in pieces(tmp_path / "a.sql", "postgresql") if sql.strip()]
    assert found == [("a.sql", "a;"), ("b.sql", "b;"), ("c.sql", "c;"), ("a.sql", "d;")]


def test_pieces_take_the_dialect_of_the_engine_and_fill_its_variables(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("select version() as dialect\n\\gset\n\\ir :dialect\nx :where, y::where, '%%';\n")
    (tmp_path / "greenplum.sql").write_text("\\set where 'distributed by (x)'\nz :where;\n")
    found = [(file.name, sql.strip()) for file, sql in pieces(tmp_path / "a.sql", "greenplum") if sql.strip()]
    assert found == [("greenplum.sql", "z distributed by (x);"), ("a.sql", "x distributed by (x), y::where, '%%';")]


# -- who may do what -------------------------------------------------------------------------------

ACCESSIBLE = Fragment("""
    select p.oid::regprocedure::text as name
      from pg_proc p join pg_namespace n on n.oid = p.pronamespace
     where n.nspname in ('cerebro', 'cerebro_private') and has_function_privilege(%(nobody)s, p.oid, 'execute')
     union all
    select c.oid::regclass::text
      from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname in ('cerebro', 'cerebro_private') and c.relkind in ('r', 'v')
       and has_table_privilege(%(nobody)s, c.oid, 'select, insert, update, delete, truncate, trigger')
     union all
    select c.oid::regclass::text
      from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname in ('cerebro', 'cerebro_private')
       and case when c.relkind = 'S' then has_sequence_privilege(%(nobody)s, c.oid, 'usage, select, update') end
     union all
    select n.nspname::text from pg_namespace n
     where n.nspname in ('cerebro', 'cerebro_private')
       and has_schema_privilege(%(nobody)s, n.oid, 'usage, create')""")


def test_public_has_nothing(pg: PsycopgDatabase, role: Callable[..., Role]) -> None:
    nobody = role("nobody", member=False)  # who has what PUBLIC has
    assert pg.rows(ACCESSIBLE, nobody=nobody.name) == []


def test_a_role_without_cerebro_user_is_refused(role: Callable[..., Callable[[], PsycopgDatabase]]) -> None:
    mallory = role("mallory", member=False)()
    for statement in ("select cerebro.madlib_mop_check()", "select 1 from cerebro.run"):
        with pytest.raises(psycopg2.errors.InsufficientPrivilege, match="schema cerebro"):
            mallory.rows(Fragment(statement))


def test_cerebro_user_reads_views_and_no_table(role: Callable[..., Callable[[], PsycopgDatabase]]) -> None:
    alice = role("alice")()
    assert alice.rows(Fragment("select run_id from cerebro.progress")) == []
    for table in ("run", "config", "event", "hop", "packed", "version"):
        with pytest.raises(psycopg2.errors.InsufficientPrivilege, match=table):
            alice.rows(Fragment(f"select 1 from cerebro_private.{table}"))


def test_every_user_function_is_granted_to_a_role(pg: PsycopgDatabase) -> None:
    forgotten = Fragment("""
        select p.oid::regprocedure::text as name
          from pg_proc p join pg_namespace n on n.oid = p.pronamespace
         where n.nspname = 'cerebro' and not has_function_privilege('cerebro_admin', p.oid, 'execute')""")
    assert pg.rows(forgotten) == []


def test_functions_with_the_owners_rights_fix_their_search_path(pg: PsycopgDatabase) -> None:
    loose = Fragment("""
        select p.oid::regprocedure::text as name
          from pg_proc p join pg_namespace n on n.oid = p.pronamespace
         where n.nspname in ('cerebro', 'cerebro_private') and p.prosecdef
           and not coalesce('search_path=pg_catalog, pg_temp' = any (p.proconfig), false)""")
    assert pg.rows(loose) == []


def test_everything_has_a_comment(pg: PsycopgDatabase) -> None:
    silent = Fragment("""
        select p.oid::regprocedure::text as name
          from pg_proc p join pg_namespace n on n.oid = p.pronamespace
         where n.nspname in ('cerebro', 'cerebro_private') and obj_description(p.oid, 'pg_proc') is null
         union all
        select c.oid::regclass::text
          from pg_class c join pg_namespace n on n.oid = c.relnamespace
         where n.nspname in ('cerebro', 'cerebro_private') and c.relkind in ('r', 'v')
           and obj_description(c.oid, 'pg_class') is null""")
    assert pg.rows(silent) == []


# -- the folders -----------------------------------------------------------------------------------

FOLDERS = sorted(path.parent.name for path in (ROOT / "udfs").glob("*/latest.sql"))


def test_every_sql_file_is_installed() -> None:
    included = {file.resolve() for file, _ in pieces(ROOT / "sql" / "install.sql", "postgresql")}
    written = [*(ROOT / "udfs").glob("*/*.sql"), *(ROOT / "sql" / "functions").glob("*.sql")]
    written += [*(ROOT / "sql" / "schema").glob("*.sql")]
    assert sorted(set(written) - included) == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_holds_its_function_and_has_a_test(folder: str) -> None:
    sql = (ROOT / "udfs" / folder / "latest.sql").read_text("utf-8")
    made = set(re.findall(r"create or replace function (\w+)\.(\w+)", sql))
    assert {name for _, name in made} == {folder}
    # Internal functions are tested by those that users call.
    users = {schema for schema, _ in made} == {"cerebro"}
    assert not users or (HERE / f"test_{folder}.py").exists()


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_body_is_five_lines_at_most(folder: str) -> None:
    sql = (ROOT / "udfs" / folder / "latest.sql").read_text("utf-8")
    bodies = re.findall(r"\$python\$\n(.*?)\$python\$", sql, re.DOTALL)
    assert [body for body in bodies if len(body.strip().splitlines()) > 5] == []
