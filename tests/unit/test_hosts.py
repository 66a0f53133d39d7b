"""From what each host of a cluster finds to items and errors that name it: pure, so any cluster can be played."""

from __future__ import annotations

import json
from typing import List

import pytest

from cerebro_db import hosts
from cerebro_db.errors import SetupError
from cerebro_db.hosts import Facts, Segment
from cerebro_db.inventory import Item

CLUSTER = [Segment(0, "sdw1", 6000, "/d/0", True), Segment(1, "sdw2", 6000, "/d/1", True)]


def found(host: str, segment: int, *without: str, **versions: str) -> Facts:
    """A complete host, but for what is named."""
    have = {"cerebro_db": "0.1.0", "interpreter": "3.11.2", "torch": "2.13.0+cpu", "numpy": "2.4.0",
            "safetensors": "0.6.2", **versions}  # fmt: skip
    items: List[Item] = [Item("host", host), Item("free memory", "8.0 GiB")]
    for name, version in have.items():
        missing = Item(name, "missing", False, f"pip install {name}")
        items.append(missing if name in without else Item(name, f"{version} in /opt/{segment}"))
    return Facts(segment, host, tuple(items))


OURS = found("mdw", -1)


def wrong(*facts: Facts) -> List[tuple[str, str, str]]:
    return [(item.item, item.value, item.remedy) for item in hosts.by_host(facts, OURS) if not item.ok]


def test_hosts_that_are_alike_have_their_items_once_each() -> None:
    items = hosts.by_host([found("sdw1", 0), found("sdw1", 1), found("sdw2", 2)], OURS)
    names = ["host", "free memory", "cerebro_db", "interpreter", "torch", "numpy", "safetensors"]
    assert [item.item for item in items] == [f"{host}: {name}" for host in ("sdw1", "sdw2") for name in names]
    assert all(item.ok for item in items)
    hosts.require([found("sdw1", 0), found("sdw2", 1)], OURS, "strategy in_rdbms")


def test_a_package_that_one_host_lacks() -> None:
    facts = (found("sdw1", 0), found("sdw2", 1, "torch"))
    assert wrong(*facts) == [("sdw2: torch", "missing", "on sdw2: pip install torch")]
    told = "torch is missing on sdw2, where strategy in_rdbms trains: on sdw2: pip install torch"
    with pytest.raises(SetupError, match=f"^{told}$"):
        hosts.require(facts, OURS, "strategy in_rdbms")


def test_a_version_that_differs() -> None:
    facts = (found("sdw1", 0, torch="2.12.1+cpu"), found("sdw2", 1))
    remedy = "the coordinator mdw has 2.13.0+cpu; have the same version on every host"
    assert wrong(*facts) == [("sdw1: torch", "2.12.1+cpu instead of 2.13.0+cpu: 2.12.1+cpu in /opt/0", remedy)]
    told = r"torch is 2\.12\.1\+cpu instead of 2\.13\.0\+cpu.* on sdw1, where it trains: the"
    with pytest.raises(SetupError, match=told):
        hosts.require(facts, OURS, "it")


@pytest.mark.parametrize(("version", "differs"), [("3.11.9", False), ("3.9.18", True)])
def test_interpreters_may_differ_in_the_last_number(version: str, differs: bool) -> None:
    assert [item for item, _, _ in wrong(found("sdw1", 0, interpreter=version))] == ["sdw1: interpreter"] * differs


def test_segments_of_one_host_that_differ_are_told_apart() -> None:
    facts = [found("sdw1", 0), found("sdw1", 1, "numpy"), found("sdw1", 2)]
    items = hosts.by_host(facts, OURS)
    assert {item.item.split(":")[0] for item in items} == {"sdw1 (segments 0, 2)", "sdw1 (segment 1)"}
    assert wrong(*facts) == [("sdw1 (segment 1): numpy", "missing", "on sdw1: pip install numpy")]


def test_a_host_without_the_package_answers_with_the_reason() -> None:
    items = hosts.parsed("No module named 'cerebro_db'")
    (row,) = wrong(Facts(1, "sdw2", items))
    assert row[:2] == ("sdw2: cerebro_db", "No module named 'cerebro_db'")
    assert "plpython3.python_path" in row[2]
    with pytest.raises(SetupError, match="cerebro_db is missing on sdw2"):
        hosts.require([Facts(1, "sdw2", items)], OURS, "it")


def test_what_the_coordinator_lacks_itself_is_its_own_item() -> None:
    ours = found("mdw", -1, "numpy")
    assert all(item.ok for item in hosts.by_host([found("sdw1", 0)], ours))


def test_facts_travel_as_json() -> None:
    items = hosts.parsed(hosts.facts_here())
    assert [item.item for item in items] == [
        "host", "cpus", "free memory", "free disk", "gpus", "cerebro_db", "interpreter", "torch", "numpy",
        "safetensors", "libpython",
    ]  # fmt: skip
    assert json.loads(hosts.facts_here())[5]["ok"] is True


def test_a_segment_that_does_not_answer_is_named_with_its_remedy() -> None:
    told = "failed to acquire resources on one or more segments (seg1 10.0.0.2:6000)"
    item = hosts.silent(CLUSTER, told)
    assert (item.item, item.value, item.ok) == ("sdw2: segment 1", f"does not answer: {told}", False)
    assert "start it on sdw2 (port 6000, /d/1)" in item.remedy
    assert hosts.silent(CLUSTER, "out of shared memory") == Item(
        "segments", "do not answer", False, "out of shared memory"
    )
