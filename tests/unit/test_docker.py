"""The compose files as a DBA reads them: pinned, checked, private, lasting. No engine is asked."""

from __future__ import annotations

import re
import stat
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

import pytest
import yaml

from cerebro_db import __version__

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "docker"
VARIANTS = ("postgresql", "greenplum", "greenplum-cluster")
DOCKERFILES = sorted(DOCKER.glob("*/Dockerfile"))
#: A tag that names one release, such as 15.14-bookworm or 7.1.0-ubuntu22.04.
PINNED = re.compile(r"\d+\.\d+(\.\d+)?-[a-z]+[\d.]*")


def compose(variant: str) -> Dict[str, Any]:
    loaded: Dict[str, Any] = yaml.safe_load((DOCKER / variant / "compose.yaml").read_text("utf-8"))
    return loaded


def services() -> Iterator[Tuple[str, str, Dict[str, Any]]]:
    for variant in VARIANTS:
        for name, service in compose(variant)["services"].items():
            yield variant, name, service


def lasting() -> List[Any]:
    """Services that stay: all but the one that makes keys and ends."""
    return [pytest.param(*found, id=f"{found[0]}-{found[1]}") for found in services() if found[1] != "keys"]


@pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.parent.name)
def test_base_images_are_pinned(file: Path) -> None:
    text = file.read_text("utf-8")
    tags = dict(re.findall(r"^ARG (\w+)=(\S+)$", text, re.MULTILINE))
    bases = re.findall(r"^FROM (\S+):\$\{(\w+)\}$", text, re.MULTILINE)
    assert len(bases) == len(re.findall(r"^FROM", text, re.MULTILINE)) == 1
    assert PINNED.fullmatch(tags[bases[0][1]])


@pytest.mark.parametrize(("variant", "name", "service"), lasting())
def test_a_service_is_checked_and_lasts(variant: str, name: str, service: Dict[str, Any]) -> None:
    assert service["image"].endswith(f":{__version__}")
    assert (DOCKER / variant / service["build"]["context"]).resolve() == ROOT
    assert (ROOT / service["build"]["dockerfile"]).is_file()
    assert service["healthcheck"]["test"] == ["CMD", "cerebro-healthy"]
    assert service["shm_size"] in ("1gb", "2gb")
    assert service["restart"] == "unless-stopped"
    assert int(service["stop_grace_period"].rstrip("m")) >= 2
    volumes = compose(variant)["volumes"]
    named = [place.split(":")[0] for place in service["volumes"] if not place.startswith(".")]
    assert set(named) <= set(volumes)
    assert named[0] not in ("keys", "")


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_password_is_a_secret_of_the_service_that_takes_sessions(variant: str) -> None:
    file = compose(variant)["secrets"]["database_password"]["file"]
    assert file == "./secrets/database_password"
    listening = [service for _, _, service in services_of(variant) if "ports" in service]
    assert [service["secrets"] for service in listening] == [["database_password"]]
    assert [service["tmpfs"] for service in listening] == [["/run/cerebro"]]
    ignored = (ROOT / ".gitignore").read_text("utf-8").splitlines()
    assert "docker/*/secrets/" in ignored


def services_of(variant: str) -> List[Tuple[str, str, Dict[str, Any]]]:
    return [found for found in services() if found[0] == variant]


@pytest.mark.parametrize("variant", VARIANTS)
def test_it_listens_on_this_machine_unless_told_otherwise(variant: str) -> None:
    ports = [port for _, _, service in services_of(variant) for port in service.get("ports", [])]
    assert ports == ["${CEREBRO_LISTEN:-127.0.0.1}:${CEREBRO_PORT:-5432}:5432"]


def test_no_password_stands_in_a_file() -> None:
    for file in [*DOCKER.rglob("compose.yaml"), *DOCKERFILES]:
        for line in file.read_text("utf-8").splitlines():
            assert not re.search(r"PASSWORD\s*[:=]", line), f"{file}: {line}"


def test_hosts_of_segments_are_those_that_the_coordinator_waits_for() -> None:
    cluster = compose("greenplum-cluster")["services"]
    hosts = (DOCKER / "greenplum-cluster" / "hosts").read_text("utf-8").split()
    assert hosts == ["segments1", "segments2"]
    for host in hosts:
        assert cluster[host]["hostname"] == host
        assert cluster["coordinator"]["depends_on"][host] == {"condition": "service_healthy"}
        assert cluster[host]["command"] == ["/start_gpdb.sh", "00:primary", "01:primary"]
        assert cluster[host]["depends_on"] == {"keys": {"condition": "service_completed_successfully"}}
    assert len({cluster[host]["image"] for host in [*hosts, "coordinator"]}) == 1
    config = (DOCKER / "greenplum-cluster" / "gpinitsystem_config").read_text("utf-8")
    assert "DATA_DIRECTORY=(/data/00/primary /data/01/primary)" in config
    assert f"COORDINATOR_HOSTNAME={cluster['coordinator']['hostname']}\n" in config


def test_the_build_context_has_what_dockerfiles_copy() -> None:
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert "*" in lines
    kept = [line[1:] for line in lines if line.startswith("!")]
    assert [place for place in kept if not (ROOT / place).exists()] == []
    assert {"cerebro_db", "sql", "udfs", "extension", "docker/shared", "scripts/install_host.sh"} <= set(kept)


def test_scripts_of_containers_can_be_run() -> None:
    for script in [*(DOCKER / "shared").glob("*.sh"), ROOT / "scripts" / "install_host.sh"]:
        assert script.stat().st_mode & stat.S_IXUSR, script
        assert script.read_text("utf-8").startswith("#!/bin/bash\n")
