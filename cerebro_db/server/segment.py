"""What runs in the process of Greenplum's segment. Light: torch comes in with signals blocked."""

from __future__ import annotations

import socket
from typing import Any, Dict, List, Optional

from cerebro_db.errors import SetupError
from cerebro_db.messages import Message
from cerebro_db.server import signals
from cerebro_db.server.entry import sql_function

_WORKER = "cerebro_db.server.worker"


@sql_function
def in_segment(
    plpy: Any, memory: Dict[Any, Any], head: str, buffer_id: int, data: List[bytes]
) -> Optional[List[bytes]]:
    """Tell the trainer of this process a message; its answer, None for rows that are not the last ones."""
    try:
        worker = signals.load(_WORKER)
    except ImportError as error:
        lacks = f"{error} on host {socket.gethostname()}; install it there for the server's Python"
        return Message.failed(SetupError(lacks)).sealed()
    answer: Optional[List[bytes]] = worker.in_segment(plpy, memory, head, buffer_id, data)
    return answer
