"""As on managed PostgreSQL: no plpython3u, no superuser. Everything but training in the server works."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Dict, Iterator, List

import numpy as np
import pandas as pd
import psycopg2
import pytest
import torch
from safetensors.torch import save
from sqlalchemy import create_engine, text

import cerebro_db
from cerebro_db import runs
from cerebro_db.architecture import Architecture, build
from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.errors import DataError, ExistsError, SetupError, UsageError
from cerebro_db.install import install, uninstall
from cerebro_db.packing import read_packed
from cerebro_db.selection import read_selection
from cerebro_db.sqltext import Fragment, ident
from tests.decoding import decode
from tests.managed import LANGUAGES, Managed

ROOT = Path(__file__).resolve().parents[2]
GRIDS = ('{"loss": ["cross_entropy"], "metrics": ["accuracy"], "optimizer_params_list":'
         ' [{"optimizer": ["adam"], "lr": [0.01, 0.001]}]}', {"batch_size": [16, 32]})


def sql(statement: str) -> Fragment:
    return Fragment(statement)


@pytest.fixture
def user(managed: Managed) -> Iterator[PsycopgDatabase]:
    """A plain user's session, after the administrator has installed; table t: every kind of column."""
    with connect(managed.admin) as admin:
        install(admin)
        admin.script(sql(f"grant cerebro_user to {ident(managed.user_name)}"))
        admin.script(sql(f"grant create on schema public to {ident(managed.user_name)}"))
    with connect(managed.user) as session:
        session.rows(sql(
            "create table t as select i as id, i * 0.5 as f, 'w' || i %% 4 as w, i %% 3 as y"
            ", array[i %% 7, i %% 5]::int4[] as small, array[[i, -i], [0.25, i / 3.0]]::float8[] as x"
            ", decode(md5(i::text), 'hex') as img from generate_series(1, 100) i"
        ))
        yield session


def put_model(session: PsycopgDatabase, packed: str, name: str) -> torch.nn.Module:
    """What a fit of an mlp over images leaves, with weights drawn by chance."""
    torch.manual_seed(1)
    module = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    layout = read_packed(session, packed).layout
    arch = {"model": "mlp", "hidden": [8]}
    built = build(Architecture.parse(json.dumps(arch)), layout, "cross_entropy", {})
    state = dict(zip(built.state_dict(), module.state_dict().values()))
    columns = "1 as mst_key, %(weights)s::bytea as model_weights, %(arch)s::json as model_arch"
    session.rows(sql(f"create table {name} as select {columns}"), weights=save(state), arch=json.dumps(arch))
    session.rows(sql(
        f"create table {name}_info as select 1 as mst_key, 'cross_entropy'::text as loss_type"
        ", array['accuracy']::text[] as metrics_type, 0.5::float8 as validation_metrics_final"
        ", 0.5::float8 as training_metrics_final, 1.0::float8 as validation_loss_final"
        ", 1.0::float8 as training_loss_final"
    ))
    session.rows(
        sql(f"create table {name}_summary as select %(layout)s::json as layout, %(packed)s::text as packed_table"),
        layout=layout.to_json(), packed=packed,
    )
    return module


# -- installing ------------------------------------------------------------------------------------


def test_install_says_what_is_left_out(managed: Managed) -> None:
    told: List[str] = []
    with connect(managed.admin, on_notice=told.append) as admin:
        assert install(admin) is False
        (line,) = told
        assert line.startswith("installed without functions in PL/Python, because this role is no superuser: pack, ")
        assert "in_rdbms, hybrid and the madlib_mop functions of SQL do not" in line
        assert line.endswith("plpython3u installed on the server, and run 'cerebro-db install' again as a superuser")
        assert admin.rows(LANGUAGES) == [{"functions": 0}]
        there = sql("select count(*)::int as n from pg_language where lanname like 'plpython%%'")
        assert admin.rows(there) == [{"n": 0}]
        install(admin)
        assert admin.rows(sql("select version from cerebro_private.version")) == [{"version": cerebro_db.__version__}]


def test_a_superuser_too_does_without_what_is_not_there(managed: Managed) -> None:
    told: List[str] = []
    with connect(managed.superuser, on_notice=told.append) as root:
        assert install(root) is False
    assert "because the server has no plpython3u: " in told[-1]


def test_psql_installs_the_same(managed: Managed) -> None:
    contents = sql((ROOT / "tests/database/contents.sql").read_text("utf-8").replace("%", "%%"))
    with connect(managed.admin) as admin:
        install(admin)
        ours = admin.rows(contents)
        uninstall(admin)
        assert admin.rows(contents) == []
        script = ROOT / "sql" / "install_without_python.sql"
        words = ["psql", "-Xq", "-f", str(script), managed.admin]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert admin.rows(contents) == ours


def test_installing_as_a_superuser_later_adds_the_rest(managed_here: Managed) -> None:
    contents = sql((ROOT / "tests/database/contents.sql").read_text("utf-8").replace("%", "%%"))
    with connect(managed_here.admin) as admin, connect(managed_here.superuser) as root:
        assert install(admin) is False
        assert admin.rows(LANGUAGES) == [{"functions": 0}]
        assert install(root) is True
        expected = (ROOT / "tests/database/contents.expected").read_text("utf-8").splitlines()
        assert [row["line"] for row in root.rows(contents)] == expected
        strangers = sql(
            "select p.oid::regprocedure::text as name from pg_proc p join pg_namespace n on n.oid = p.pronamespace"
            " where n.nspname like 'cerebro%%' and pg_get_userbyid(p.proowner) <> current_user union all"
            " select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace"
            " where n.nspname like 'cerebro%%' and c.relkind in ('r', 'v', 'S')"
            " and pg_get_userbyid(c.relowner) <> current_user"
        )
        assert root.rows(strangers) == []
        admin.script(sql(f"grant cerebro_user to {ident(managed_here.user_name)}"))
        with connect(managed_here.user) as ana:
            checked = ana.rows(sql("select item, ok from madlib_mop_check()"))
            assert [row for row in checked if not row["ok"]] == []
            assert {"item": "loopback", "ok": True} in checked
        with pytest.raises(SetupError, match="belong to role postgres, which installed them.*install as that role"):
            install(admin)


def test_who_may_not_install_is_told_why(managed: Managed) -> None:
    told = "or the owner of the database, and role ana_"
    with connect(managed.user) as stranger, pytest.raises(SetupError, match=told):
        install(stranger)


# -- packing ---------------------------------------------------------------------------------------


def test_pack_every_kind_of_column(managed: Managed, user: PsycopgDatabase) -> None:
    row = cerebro_db.pack(managed.user, "t", "p", "y", "f, w, small, x[4], img", options={"segments": 3}).iloc[0]
    assert (row["rows"], row["segments"], row["output_table"]) == (100, 3, "public.p")
    got = decode(user, "p")
    f = got.column("f")
    order = np.rint(f * 2).astype(int)
    assert sorted(order) == list(range(1, 101))
    np.testing.assert_array_equal(got.inputs["small"], np.stack([order % 7, order % 5], 1))
    x = np.stack([order, -order, np.full(100, 0.25), order / 3.0], 1).astype(np.float32)
    np.testing.assert_array_equal(got.inputs["x"], x)
    np.testing.assert_array_equal(got.column("w"), order % 4 + 1)
    np.testing.assert_array_equal(got.target, order % 3)
    assert {item.column: item.dtype for item in got.layout.inputs}["small"] == "|u1"


def test_validation_rows_take_the_label_from_training(managed: Managed, user: PsycopgDatabase) -> None:
    cerebro_db.pack(managed.user, "t", "p", "y", "f, img", options={"segments": 2, "seed": 3})
    row = cerebro_db.pack_validation(managed.user, "t", "v", "p").iloc[0]
    assert (row["rows"], row["segments"], row["seed"], row["source_table"]) == (100, 2, 3, "public.t")


def test_segments_are_the_clients_cores_where_nobody_says(
    managed: Managed, user: PsycopgDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cerebro_db.packing.cores", lambda: 5)
    assert cerebro_db.pack(managed.user, "t", "p", "y", "f").iloc[0]["segments"] == 5


BAD: Dict[str, Any] = {
    "ragged": ("array[1, 2]", "array[1, 2, 3]", r"rows of different or no size"),
    "null element": ("array[1, 2]", "array[1, null]", "1 NULL element"),
    "nan": ("array[1, 2]::float4[]", "'{nan, 1}'::float4[]", "1 NaN"),
    "infinity": ("array[1, 2]::float4[]", "'{-infinity, 1}'::float4[]", "1 Infinity"),
}


@pytest.mark.parametrize("case", BAD)
def test_unfit_arrays_are_refused_with_nothing_left(managed: Managed, user: PsycopgDatabase, case: str) -> None:
    good, bad, message = BAD[case]
    user.script(sql(
        f"create table bad as select i as id, i % 2 as y, case when i = 7 then {bad} else {good} end::float4[] as a"
        " from generate_series(1, 50) i"
    ))
    tables = sql("select count(*)::int as n from pg_class where relnamespace = 'public'::regnamespace")
    before = user.rows(tables)
    with pytest.raises(DataError, match=message):
        cerebro_db.pack(managed.user, "bad", "p", "y", "a")
    assert user.rows(tables) == before


def test_a_failure_leaves_the_callers_transaction_usable(managed: Managed, user: PsycopgDatabase) -> None:
    engine = create_engine("postgresql+psycopg2://", creator=lambda: psycopg2.connect(managed.user))
    with engine.connect() as connection:
        connection.execute(text("create table mine (x integer)"))
        cerebro_db.pack(connection, "t", "p", "y", "f")
        with pytest.raises(ExistsError):
            cerebro_db.pack(connection, "t", "p", "y", "f")
        with pytest.raises(UsageError, match="unknown argument 'bufer_size': did you mean 'buffer_size'"):
            cerebro_db.pack(connection, "t", "q", "y", "f", bufer_size=1)
        assert connection.execute(text("select count(*) from p_summary")).scalar() == 1
        connection.rollback()
        assert connection.execute(text("select to_regclass('p'), to_regclass('mine')")).one() == (None, None)
    cerebro_db.pack(engine, "t", "p", "y", "f")
    assert user.rows(sql("select rows from p_summary")) == [{"rows": 100}]


# -- configs, evaluate, predict --------------------------------------------------------------------


def test_configs(managed: Managed, user: PsycopgDatabase) -> None:
    assert cerebro_db.load_model_arch(managed.user, "arch", {"model": "mlp", "hidden": [8]}, name="small") == 1
    assert cerebro_db.load_model_arch(managed.user, "arch", '{"model": "mlp", "hidden": [4]}') == 2
    found = cerebro_db.generate_model_configs(managed.user, "arch", "grid", [1, 2], *GRIDS)
    assert isinstance(found, pd.DataFrame)
    assert list(found["mst_key"]) == list(range(1, 9))
    assert len(read_selection(user, "grid")) == 8
    drawn = cerebro_db.generate_model_configs(
        managed.user, "arch", "drawn", [1], *GRIDS, search_type="random", num_configs=3, random_state=1
    )
    assert len(drawn) == 3
    listed = cerebro_db.load_model_selection_table(
        managed.user, "arch", "listed", [1, 2], [{"loss": "cross_entropy", "optimizer": "sgd"}], ["batch_size=8"]
    )
    assert list(listed["model_id"]) == [1, 2]
    lists = (["loss='crossentropi', optimizer='sgd'"], ["batch_size=8"])
    with pytest.raises(UsageError, match="unknown loss 'crossentropi'"):
        cerebro_db.load_model_selection_table(managed.user, "arch", "x", [1], *lists)


def test_evaluate_and_predict(managed: Managed, user: PsycopgDatabase) -> None:
    cerebro_db.pack(managed.user, "t", "p", "y", "img", normalizing_const=255)
    module = put_model(user, "p", "models")
    rows = user.rows(sql("select id, img, y from t order by id"))
    x = torch.stack([torch.frombuffer(bytearray(row["img"]), dtype=torch.uint8) for row in rows]).float() / 255
    y = torch.tensor([row["y"] for row in rows])
    outputs = module(x)
    result = cerebro_db.evaluate(managed.user, "models", "p", "ev").iloc[0]
    assert result["loss"] == pytest.approx(torch.nn.functional.cross_entropy(outputs, y).item(), abs=1e-6)
    assert result["metric"] == pytest.approx(outputs.argmax(1).eq(y).double().mean().item())
    made = cerebro_db.predict(managed.user, "models", "t", "id", "guess", pred_type="response")
    assert dict(zip(made["id"], made["class_value"])) == {
        row["id"]: str(best) for row, best in zip(rows, outputs.argmax(1).tolist())
    }
    assert runs.status(user, None) == []
    with pytest.raises(ExistsError):
        cerebro_db.predict(managed.user, "models", "t", "id", "guess")
