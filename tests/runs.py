"""Small data, selection tables and runs to watch: what the tests of whole runs share."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple, Union

import psycopg2
from psycopg2 import extensions

from cerebro_db.client import PsycopgDatabase, connect
from cerebro_db.database import Row
from cerebro_db.engines import on_greenplum
from cerebro_db.sqltext import Fragment
from tests.processes import started
from tests.support import wait_until

#: mst_key -> (architecture, compile parameters, fit parameters).
Configs = Dict[int, Tuple[Dict[str, Any], Dict[str, Any], str]]

#: Setting of a server whose calls leave no training session and no worker for the next one.
KEEP_NOTHING = {"cerebro.keep_seconds": "0"}
MLP = {"model": "mlp", "hidden": [8]}
ADAM = {"optimizer": "adam", "lr": 0.01, "loss": "cross_entropy", "metrics": ["accuracy"]}

_HELPERS = Fragment(
    "select pid, application_name from pg_stat_activity"
    " where (application_name = 'cerebro' or application_name like 'cerebro run %%')"
    "   and datname = current_database()"  # a server may be shared
)


def sql(text: str) -> Fragment:
    """SQL written in a test, as it stands."""
    return Fragment(text)


def make_images(database: PsycopgDatabase, table: str, rows: int, side: int = 4, classes: int = 3) -> None:
    """Table (id, img bytea of side x side, label text): the same bytes every time, labels that can be learned."""
    database.rows(
        sql(
            f"create table {table} as"
            "  select i as id, 'c' || i %% %(classes)s as label"
            "       , (select decode(string_agg(lpad(to_hex((i * 7919 + p * 104729 + i %% %(classes)s * p) %% 256)"
            "                                   , 2, '0'), '' order by p), 'hex')"
            "            from generate_series(1, %(pixels)s) p) as img"
            "    from generate_series(1, %(rows)s) i"
        ),
        rows=rows,
        pixels=side * side,
        classes=classes,
    )


def pack(
    database: PsycopgDatabase,
    source: str,
    packed: str,
    segments: int,
    buffer_size: Optional[int] = None,
    features: str = "img",
    normalizing_const: float = 255.0,
) -> None:
    database.rows(
        sql(
            "select training_preprocessor_dl(%(source)s, %(packed)s, 'label', %(features)s, %(buffer_size)s::int"
            ", %(normalizing_const)s, options := %(options)s::jsonb)"
        ),
        source=source,
        packed=packed,
        features=features,
        buffer_size=buffer_size,
        normalizing_const=normalizing_const,
        options=json.dumps({"segments": segments}),
    )


def make_selection(database: PsycopgDatabase, name: str, configs: Configs) -> None:
    """A selection table with its own table of architectures, `<name>_arch`."""
    database.script(
        sql(
            f"create table {name}_arch (model_id integer primary key, model_arch json, model_weights bytea);"
            f"create table {name} (mst_key integer primary key, model_id integer, compile_params varchar"
            ", fit_params varchar);"
            f"create table {name}_summary as select '{name}_arch'::text as model_arch_table, null::text as object_table"
        )
    )
    for key, (arch, compiled, fitted) in configs.items():
        database.rows(
            sql(f"insert into {name}_arch values (%(key)s, %(arch)s::json, null)"), key=key, arch=json.dumps(arch)
        )
        database.rows(
            sql(f"insert into {name} values (%(key)s, %(key)s, %(compiled)s, %(fitted)s)"),
            key=key,
            compiled=json.dumps(compiled),
            fitted=fitted,
        )


FIT = sql(
    "select * from madlib_mop_fit(%(source)s, %(output)s, %(selection)s, %(epochs)s::int"
    ", validation_table := %(validation)s, use_caching := %(caching)s, options := %(options)s::jsonb)"
)
RESUME = sql("select * from madlib_mop_resume(%(run_id)s::int)")


def fit_values(source: str, output: str, selection: str, epochs: Optional[int], **options: Any) -> Dict[str, Any]:
    """The values of FIT; `validation` and `caching` are arguments of their own."""
    validation, caching = options.pop("validation", None), options.pop("caching", True)
    return {
        "source": source,
        "output": output,
        "selection": selection,
        "epochs": epochs,
        "validation": validation,
        "caching": caching,
        "options": json.dumps(options),
    }


def fit(database: PsycopgDatabase, *arguments: Any, **options: Any) -> Row:
    """Run madlib_mop_fit to its end: fit(database, source, output, selection, epochs, seed=1, ...)."""
    (row,) = database.rows(FIT, **fit_values(*arguments, **options))
    return row


def resume(database: PsycopgDatabase, run_id: int) -> Row:
    (row,) = database.rows(RESUME, run_id=run_id)
    return row


class Running:
    """A statement in a session and a thread of its own."""

    def __init__(self, dsn: str, statement: Fragment, **values: Any) -> None:
        self.database = connect(dsn)
        self.pid: int = self.database.connection.info.backend_pid
        self.error: Optional[psycopg2.Error] = None
        self.rows: List[Row] = []
        self._thread = threading.Thread(target=self._work, args=(statement, values), daemon=True)
        self._thread.start()

    def _work(self, statement: Fragment, values: Dict[str, Any]) -> None:
        try:
            self.rows = self.database.rows(statement, **values)
        except psycopg2.Error as error:
            self.error = error

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def wait(self, seconds: float = 120) -> Running:
        """Until the statement has ended, one way or the other."""
        self._thread.join(seconds)
        assert not self._thread.is_alive(), f"the statement did not end within {seconds} s"
        return self

    def failed(self, seconds: float = 120) -> psycopg2.Error:
        """The error that the statement must end with."""
        self.wait(seconds)
        assert self.error is not None, f"no error, but {self.rows}"
        return self.error

    def finished(self, seconds: float = 120) -> Row:
        """The row that the statement must end with."""
        self.wait(seconds)
        if self.error is not None:
            raise self.error
        return self.rows[0]

    def cancelled(self, seconds: float) -> None:
        """Cancel the statement, which must end with an error in time, and close the session."""
        self.database.connection.cancel()
        self.failed(seconds)
        self.close()

    def close(self) -> None:
        self.database.close()


class Command:
    """The command `cerebro-db` in a process of its own."""

    def __init__(self, dsn: str, *words: str, folder: Optional[Path] = None) -> None:
        self._process = started(dsn, *words, folder=folder)
        self.pid: int = self._process.pid
        self.rows: List[Row] = []
        self.error: Optional[str] = None

    @property
    def running(self) -> bool:
        if self._process.poll() is None:
            return True
        self.wait()
        return False

    def wait(self, seconds: float = 120) -> int:
        """Until the process has ended; its exit code."""
        if self.error is None:
            stdout, self.error = self._process.communicate(timeout=seconds)
            self.rows = [json.loads(stdout)] if stdout.startswith("{") else []
        return int(self._process.returncode)

    def finished(self, seconds: float = 120) -> Row:
        """The row that it must print, with --json."""
        assert self.wait(seconds) == 0, self.error
        return self.rows[0]


def start_fit(
    dsn: str, database: PsycopgDatabase, *arguments: Any, hops: int = 1, **options: Any
) -> Tuple[Running, int]:
    """A fit in a session of its own, and its run_id, as soon as it has finished some hops."""
    before = newest(database)
    running = Running(dsn, FIT, **fit_values(*arguments, **options))
    return running, begun(database, before, running, hops)


def newest(database: PsycopgDatabase) -> int:
    """The number of the newest run, 0 before the first."""
    return int(database.rows(sql("select coalesce(max(run_id), 0) as id from cerebro.run"))[0]["id"])


def begun(database: PsycopgDatabase, before: int, running: Union[Running, Command], hops: int) -> int:
    """The number of a run newer than `before`, as soon as it has finished some hops."""

    def there() -> bool:
        assert running.running, f"the fit ended early: {running.error or running.rows}"
        return newest(database) > before

    wait_until(there, 120, "the run begins")
    run_id = newest(database)
    wait_for_hops(database, run_id, hops, running)
    return run_id


def helpers(database: PsycopgDatabase) -> Dict[int, str]:
    """Sessions of runs: pid -> application_name."""
    return {row["pid"]: row["application_name"] for row in database.rows(_HELPERS)}


def trainers(database: PsycopgDatabase) -> List[int]:
    """Pids of the sessions that train right now."""
    return [pid for pid, name in helpers(database).items() if name.startswith("cerebro run ")]


def training_processes(database: PsycopgDatabase) -> List[List[int]]:
    """Of each session that trains right now, the processes that may do the work: its own, or its segments'."""
    if not on_greenplum(database):
        return [[pid] for pid in trainers(database)]
    of_sessions = sql(
        "select array_agg(s.pid) as pids"
        "  from (select (pg_stat_get_activity(null)).* from gp_dist_random('pg_catalog.gp_id')) s"
        "  join pg_stat_activity a on a.sess_id = s.sess_id"
        " where a.application_name like 'cerebro run %%' and a.datname = current_database() group by s.sess_id"
    )
    return [row["pids"] for row in database.rows(of_sessions)]


def session_roles(database: PsycopgDatabase) -> List[str]:
    """Roles made for calls, but for those of sessions in other databases: the server may serve others, too."""
    rows = database.rows(
        sql(
            "select r.rolname from pg_roles r where r.rolname like 'cerebro_session%%' and not exists ("
            " select 1 from pg_stat_activity a where a.datname <> current_database()"
            " and r.rolname like 'cerebro\\_session\\_' || a.pid || '\\_%%')"
        )
    )
    return [row["rolname"] for row in rows]


def no_helpers(database: PsycopgDatabase, seconds: float = 10) -> None:
    """Fail unless every session of a run is gone in time, and every role made for one."""
    wait_until(lambda: not helpers(database), seconds, f"helper sessions are gone: {helpers(database)}")
    assert session_roles(database) == []


def hops(database: PsycopgDatabase, run_id: int) -> List[Row]:
    """Finished hops in the order in which they started."""
    return database.rows(
        sql("select * from cerebro.hop where run_id = %(run_id)s order by started_at"), run_id=run_id
    )


def wait_for_hops(
    database: PsycopgDatabase, run_id: int, count: int, running: Union[Running, Command], seconds: float = 120
) -> None:
    """Until a run has that many finished hops; fails when its statement ends before."""

    def enough() -> bool:
        assert running.running, f"the run ended early: {running.error or running.rows}"
        return len(hops(database, run_id)) >= count

    wait_until(enough, seconds, f"run {run_id} has {count} hops")


def status(database: PsycopgDatabase, run_id: int) -> str:
    (row,) = database.rows(sql("select status from cerebro.run where run_id = %(run_id)s"), run_id=run_id)
    return str(row["status"])


def weights(database: PsycopgDatabase, output: str, mst_key: int) -> bytes:
    """A config's final weights as safetensors."""
    (row,) = database.rows(sql(f"select model_weights from {output} where mst_key = %(key)s"), key=mst_key)
    return bytes(row["model_weights"])


def relations(database: PsycopgDatabase) -> List[str]:
    """Every table, view and index there is, and every role: what a refused call must leave as it was.

    But for the roles of other test processes, which may use the same server: theirs end in their pids.
    """
    rows = database.rows(
        sql("select oid::regclass::text as name from pg_class where relkind <> 't' and relnamespace <> 11"
            " union all select 'role ' || rolname from pg_roles where rolname not like 'cerebro_session%%'"
            r" and (rolname !~ '_\d+_\d+$' or rolname like %(ours)s)"
            " union all select 'run ' || run_id from cerebro_private.run order by 1"),
        ours=f"%\\_{os.getpid()}\\_%",
    )
    return [row["name"] for row in rows] + session_roles(database)


def is_idle(connection: extensions.connection) -> bool:
    return bool(connection.info.transaction_status == extensions.TRANSACTION_STATUS_IDLE)


def keys(rows: Iterable[Row]) -> List[Tuple[int, int, int]]:
    return sorted((row["mst_key"], row["epoch"], row["segment_id"]) for row in rows)


def every_hop(configs: Sequence[int], epochs: int, segments: int) -> List[Tuple[int, int, int]]:
    return sorted((c, e, s) for c in configs for e in range(1, epochs + 1) for s in range(segments))
