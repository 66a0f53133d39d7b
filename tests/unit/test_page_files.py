"""Files of a server's tables: which may be read, and which are the server's own."""

from __future__ import annotations

import os
import pwd
import struct
from pathlib import Path
from typing import Iterator

import numpy as np
import pytest

from cerebro_db.errors import RunError, SetupError
from cerebro_db.pages import files
from cerebro_db.pages.files import RelationFile, check_cluster
from tests.made_pages import PAGE, form


@pytest.fixture
def nobody() -> Iterator[str]:
    """Run the test as a user who is not root, for whom permissions count."""
    if os.geteuid() != 0:
        yield pwd.getpwuid(os.geteuid()).pw_name
        return
    os.seteuid(65534)
    try:
        yield "nobody"
    finally:
        os.seteuid(0)


def test_an_unreadable_file_names_path_user_and_remedy(tmp_path: Path, nobody: str) -> None:
    path = f"/tmp/unreadable_{os.getpid()}"
    with open(path, "wb"):
        os.chmod(path, 0)
    try:
        with pytest.raises(SetupError, match=f"user '{nobody}' read '{path}'.*allow-group-access"):
            RelationFile(path, form())
    finally:
        os.unlink(path)


def test_a_file_that_goes_away_is_told(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(bytes(PAGE * 2))
    relation = RelationFile(str(path), form())
    path.write_bytes(b"")
    with pytest.raises(RunError, match="ends at byte 0: the table was truncated or dropped"):
        relation.read(0, 1, np.empty(PAGE, np.uint8))
    path.unlink()
    with pytest.raises(RunError, match="is gone: the table was dropped or rewritten"):
        relation.read(0, 1, np.empty(PAGE, np.uint8))


def test_the_cluster_must_be_the_servers_own(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="is not on this machine"):
        check_cluster(str(tmp_path), 77, form())
    (tmp_path / "global").mkdir()
    (tmp_path / files._CONTROL).write_bytes(struct.pack("<Q", 78))
    with pytest.raises(SetupError, match="system identifier 77"):
        check_cluster(str(tmp_path), 77, form())
    check_cluster(str(tmp_path), 78, form())
    for name in ("recovery.conf", "standby.signal"):
        (tmp_path / name).touch()
        with pytest.raises(SetupError, match=f"of segment 1 is on this machine that of its mirror .*has {name}"):
            check_cluster(str(tmp_path), 78, form(), "segment 1")
        (tmp_path / name).unlink()
