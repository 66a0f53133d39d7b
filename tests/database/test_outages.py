"""An error of a server that misses one of its segments, as clients of a run and of a command see it."""

from __future__ import annotations

import psycopg2
import pytest

from cerebro_db.calls import ours
from cerebro_db.cli import output
from cerebro_db.client import PsycopgDatabase
from cerebro_db.errors import RunError
from cerebro_db.outages import REMEDY
from cerebro_db.sessions import told
from cerebro_db.sqltext import Fragment

#: What Greenplum 6 raises while a primary is stopped; its place stands in the detail.
SILENT = Fragment(
    "do $$ begin raise exception 'failed to acquire resources on one or more segments' using errcode = 'io_error'"
    ", detail = E'could not connect to server: Connection refused\\n (seg1 10.0.0.2:7802)'; end $$"
)
EXPECTED = (
    "a segment of the cluster does not answer, Connection refused (seg1 10.0.0.2:7802): "
    f"start it on 10.0.0.2 ({REMEDY})"
)


@pytest.fixture
def error(pg: PsycopgDatabase) -> psycopg2.Error:
    with pytest.raises(psycopg2.Error) as caught:
        pg.script(SILENT)
    return caught.value


def test_it_is_one_sentence_with_the_place_and_the_remedy(error: psycopg2.Error) -> None:
    assert told(error) == EXPECTED
    raised = ours(error)
    assert (type(raised), str(raised), raised.sqlstate) == (RunError, EXPECTED, "58030")


def test_a_command_says_it_on_its_line(error: psycopg2.Error) -> None:
    with output.stderr.capture() as line:
        output.error_line(error)
    assert " ".join(line.get().split()) == f"cerebro-db: {EXPECTED}"
