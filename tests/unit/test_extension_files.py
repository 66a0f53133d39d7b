"""The script of the extension, as it is made for each engine: one that the server itself can run."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import List

import pytest

from cerebro_db import __version__
from cerebro_db.engines import GREENPLUM, POSTGRESQL

ROOT = Path(__file__).resolve().parents[2]
ENGINES = (POSTGRESQL, GREENPLUM)
#: What a table of the catalog says on Greenplum of where its rows live.
DISTRIBUTED = re.compile(r"\) with \(appendonly = false\) distributed replicated;")


def loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("extension_build", ROOT / "extension" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def script(engine: str) -> str:
    return str(loaded().files(engine)[f"cerebro--{__version__}.sql"])


def catalog_tables(text: str) -> List[str]:
    return re.findall(r"^create table if not exists cerebro_private\.(\w+)", text, re.MULTILINE)


@pytest.mark.parametrize("engine", ENGINES)
def test_only_the_guard_is_for_psql(engine: str) -> None:
    lines = script(engine).splitlines()
    assert [line for line in lines if line.startswith("\\")] == [
        '\\echo Use "CREATE EXTENSION cerebro" to load this file. \\quit'
    ]
    assert [line for line in lines if re.match(r"(begin|commit|rollback);", line)] == []
    assert re.findall(r"(?<![:\w]):everywhere|:on_coordinator", script(engine)) == []
    assert re.findall(r"create schema.* (\w+);", script(engine)) == ["cerebro"]  # the other one is the extension's own


@pytest.mark.parametrize("engine", ENGINES)
def test_every_function_is_in_it(engine: str) -> None:
    made = set(re.findall(r"create or replace function [\w.]+\.(\w+)\(", script(engine)))
    assert {folder.name for folder in (ROOT / "udfs").iterdir() if (folder / "latest.sql").exists()} <= made


def test_greenplum_says_where_rows_live_and_postgresql_does_not() -> None:
    assert len(DISTRIBUTED.findall(script(GREENPLUM))) == len(catalog_tables(script(GREENPLUM)))
    assert "distributed" not in script(POSTGRESQL).split("$sql$")[0]
    assert DISTRIBUTED.findall(script(POSTGRESQL)) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_a_dump_keeps_every_table_but_those_that_it_must_not(engine: str) -> None:
    kept = re.findall(r"pg_extension_config_dump\('cerebro_private\.(\w+)', ''\)", script(engine))
    tables = set(catalog_tables(script(engine)))
    assert tables - set(kept) == {"version", "packed"}
    assert set(kept) - tables == {"run_run_id_seq", "event_event_id_seq"}


def test_the_control_file_has_lines_that_9_4_knows() -> None:
    lines = dict(line.split(" = ") for line in loaded().files(GREENPLUM)["cerebro.control"].splitlines())
    assert lines == {
        "comment": "'Deep-learning model selection by Model Hopper Parallelism, for PyTorch'",
        "default_version": f"'{__version__}'",
        "relocatable": "false",
        "schema": "cerebro_private",
        "requires": "'plpython3u'",
        "superuser": "true",
    }
