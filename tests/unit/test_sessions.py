"""How a server reaches itself."""

from __future__ import annotations

from typing import Optional

import pytest

from cerebro_db.sessions import own_address


@pytest.mark.parametrize(("listen_addresses", "address"), [
    ("localhost", "127.0.0.1"),
    ("*", "127.0.0.1"),
    ("10.0.0.5, localhost", "127.0.0.1"),
    ("10.0.0.5,10.0.0.6", "10.0.0.5"),
    ("::", "::1"),
    ("", None),
])  # fmt: skip
def test_own_address(listen_addresses: str, address: Optional[str]) -> None:
    assert own_address(listen_addresses) == address
