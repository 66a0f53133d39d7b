"""`cerebro-db export` writes what other tools read."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from cerebro_db.cli import app
from cerebro_db.client import PsycopgDatabase
from tests.decoding import decode
from tests.preprocessing import run, train_by_python

pyarrow = pytest.importorskip("pyarrow")


@pytest.fixture
def packed(pg: PsycopgDatabase) -> PsycopgDatabase:
    run(
        pg,
        "create table raw as select decode(md5(i::text), 'hex') as img, i / 7.0::float8 as a, i as b, 'w' || i % 3 as w"
        ", array[i, 1]::float4[] as v, 'c' || i % 4 as y from generate_series(1, 90) i",
    )
    train_by_python(pg, "raw", "packed", "y", "img[4,4], a, b, w, v", buffer_size=20)
    return pg


def invoke(dsn: str, *words: str) -> Any:
    return CliRunner().invoke(app, ["export", *words, "--dsn", dsn])


def read(file: Path) -> Any:
    if file.suffix == ".parquet":
        return pyarrow.parquet.read_table(file)
    return pyarrow.ipc.open_file(pyarrow.memory_map(str(file))).read_all()


@pytest.mark.parametrize("suffix", [".arrow", ".parquet"])
def test_tensors_and_labels(packed: PsycopgDatabase, pg_dsn: str, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"rows{suffix}"
    result = invoke(pg_dsn, "packed", str(file))
    assert result.stdout == f"90 rows of public.packed are in {file}\n"
    table, wanted = read(file), decode(packed, "packed")
    for name, values in wanted.inputs.items():
        found = table.column(name).combine_chunks().to_numpy_ndarray()
        assert np.array_equal(found, values)
        assert found.shape == values.shape
    assert table.column("y").to_pylist() == wanted.label_texts()
    assert json.loads(table.schema.metadata[b"cerebro.layout"])["target"]["column"] == "y"
    assert list(tmp_path.iterdir()) == [file]


def test_one_segment(packed: PsycopgDatabase, pg_dsn: str, tmp_path: Path) -> None:
    result = invoke(pg_dsn, "packed", str(tmp_path / "rows.arrow"), "--segment", "1", "--json")
    assert json.loads(result.stdout) == {"file": str(tmp_path / "rows.arrow"), "rows": 45}
    result = invoke(pg_dsn, "packed", str(tmp_path / "none.arrow"), "--segment", "7")
    assert (result.exit_code, "unknown segment with rows '7': known are 0, 1" in result.stderr) == (1, True)


@pytest.mark.parametrize(
    ("table", "file", "message"),
    [
        ("packed", "rows.csv", "unknown format of a file '.csv': .*known are .arrow, .parquet"),
        ("packed", "there.arrow", "there.arrow' exists; remove it or name another"),
        ("packed", "no/folder.arrow", "cannot be written: .*; name another place"),
        ("raw", "rows.arrow", "table public.raw is not packed"),
    ],
)
def test_what_is_refused(
    packed: PsycopgDatabase, pg_dsn: str, tmp_path: Path, table: str, file: str, message: str
) -> None:
    (tmp_path / "there.arrow").write_text("mine")
    result = CliRunner().invoke(app, ["export", table, str(tmp_path / file), "--dsn", pg_dsn])
    assert result.exit_code == 1
    assert re.search(message, result.stderr)
    assert [path.name for path in tmp_path.iterdir()] == ["there.arrow"]
