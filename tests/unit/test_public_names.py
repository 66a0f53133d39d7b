"""What `import cerebro_db` promises: a sorted list of names, all there, nothing else in sight."""

from __future__ import annotations

import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

import cerebro_db

ROOT = Path(__file__).resolve().parents[2]
PUBLIC = list(getattr(cerebro_db, "__all__", []))


def test_public_names_are_sorted_and_exist() -> None:
    assert sorted(set(PUBLIC)) == PUBLIC
    assert [name for name in PUBLIC if not hasattr(cerebro_db, name)] == []


def test_nothing_else_is_visible() -> None:
    visible = {
        name
        for name, value in vars(cerebro_db).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType) and name != "annotations"
    }
    assert visible - set(PUBLIC) == set()


def test_importing_stays_light() -> None:
    heavy = {"torch", "numpy", "pandas", "sqlalchemy", "psycopg2"}
    code = f"import sys, cerebro_db; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_an_unknown_name() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nosuch'"):
        _ = cerebro_db.nosuch


def test_one_version_everywhere() -> None:
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    in_sql = (ROOT / "sql" / "schema" / "10_catalog.sql").read_text("utf-8")
    assert f'version = "{cerebro_db.__version__}"' in project
    assert set(re.findall(r"'(\d+\.\d+\.\d+)'", in_sql)) == {cerebro_db.__version__}
