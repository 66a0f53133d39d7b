"""From what a Greenplum says of a segment that is not there to a sentence with the remedy."""

from __future__ import annotations

import pytest

from cerebro_db.outages import REMEDY, outage
from cerebro_db.strategies.ledger import cannot_train

#: As version 6 said it, on one line, of a primary that was stopped, was stopping, and was starting again.
REFUSED = (
    "failed to acquire resources on one or more segments DETAIL: could not connect to server: Connection refused Is "
    'the server running on host "10.0.0.2" and accepting TCP/IP connections on port 7802? (seg1 10.0.0.2:7802)'
)
STOPPING = (
    "DTX RollbackAndReleaseCurrentSubTransaction dispatch failed; failed to acquire resources on one or more segments "
    "DETAIL: FATAL: the database system is shutting down (seg1 10.0.0.2:7802)"
)
STARTING = (
    "failed to acquire resources on one or more segments DETAIL: segment is in reset/recovery mode (seg1 h-2:7802)"
)
BARE = "failed to acquire resources on one or more segments (seg12 slice1 10.0.0.2:7802 pid=77)"


@pytest.mark.parametrize(
    ("said", "named"),
    [
        (REFUSED, ", Connection refused (seg1 10.0.0.2:7802): start it on 10.0.0.2"),
        (STOPPING, ", the database system is shutting down (seg1 10.0.0.2:7802): start it on 10.0.0.2"),
        (STARTING, ", segment is in reset/recovery mode (seg1 h-2:7802): start it on h-2"),
        (BARE, " (seg12 10.0.0.2:7802): start it on 10.0.0.2"),
    ],
)
def test_the_segment_its_host_and_the_remedy_are_named(said: str, named: str) -> None:
    expected = f"a segment of the cluster does not answer{named} ({REMEDY})"
    assert outage(said) == expected
    assert outage(f"worker of segment 2 lost its session: {expected}; and more") == expected


def test_a_segment_that_crashed_may_be_up_again() -> None:
    said = "Error on receive from seg1 slice1 10.0.0.2:7802 pid=77: server closed the connection unexpectedly"
    expected = (
        "a segment of the cluster broke a connection (seg1 10.0.0.2:7802): see its log on 10.0.0.2, and start it there "
        f"if it is down ({REMEDY})"
    )
    assert outage(said) == expected
    assert outage(f"lost: {expected}") == expected


@pytest.mark.parametrize(
    "said",
    [
        "column x does not exist",
        "terminating connection due to administrator command (seg1 slice1 10.0.0.2:7802 pid=77)",
        "Out of memory (seg0 10.0.0.2:7801)",
        "FATAL: the database system is shutting down",
    ],
)
def test_other_errors_are_no_outage(said: str) -> None:
    assert outage(said) is None


def test_a_run_that_meets_an_outage_says_how_to_go_on() -> None:
    assert str(cannot_train(2, f"its process is gone; {REFUSED}", 7)) == (
        "a segment of the cluster does not answer, Connection refused (seg1 10.0.0.2:7802): start it on 10.0.0.2 "
        f"({REMEDY}); the finished hops are kept, then: select madlib_mop_resume(7)"
    )
