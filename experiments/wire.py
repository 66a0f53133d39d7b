"""How many bytes cross the connections of a command: a forwarder between it and its server counts them.

    python -m experiments.wire COUNTS DSN COMMAND...

runs COMMAND with `--dsn` and a DSN that leads through the forwarder, ends as it ends, and leaves the file COUNTS with a
line NAME=NUMBER each: connections, and the bytes that the command sent and received. It counts what the sockets carry,
encrypted or not.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import List, Tuple

from psycopg2 import extensions

from cerebro_db.client import connect, make_dsn

PIECE_BYTES = 1 << 16
#: Where the command connects to; nobody else can.
HERE = "127.0.0.1"


@dataclass
class Counts:
    connections: int = 0
    sent: int = 0
    received: int = 0


def through(dsn: str, port: int) -> str:
    """The same DSN by way of the forwarder. A host name stays, by which certificates and passwords are found."""
    host = extensions.parse_dsn(dsn).get("host", "")
    name = {"host": HERE} if not host or host.startswith("/") else {}
    return make_dsn(dsn, hostaddr=HERE, port=port, **name)


def server_of(dsn: str) -> Tuple[str, int]:
    """Where libpq finds the server: an address, or the folder of its socket, and the port."""
    with connect(dsn) as database:
        info = database.connection.info
        return info.host, info.port


class Forwarder:
    """Carries bytes between clients of this machine and a server, and counts them."""

    def __init__(self, host: str, port: int) -> None:
        self.counts = Counts()
        self._host = host
        self._port = port

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until either side ends it."""
        self.counts.connections += 1
        server = await self._connect()
        await asyncio.gather(self._pump(reader, server[1], "sent"), self._pump(server[0], writer, "received"))

    async def _connect(self) -> Tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._host.startswith("/"):
            return await asyncio.open_unix_connection(f"{self._host}/.s.PGSQL.{self._port}")
        return await asyncio.open_connection(self._host, self._port)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: str) -> None:
        with suppress(ConnectionError):
            while piece := await reader.read(PIECE_BYTES):
                setattr(self.counts, direction, getattr(self.counts, direction) + len(piece))
                writer.write(piece)
                await writer.drain()
        writer.close()


async def counted(dsn: str, command: List[str]) -> Tuple[int, Counts]:
    """Run the command through a forwarder; its exit code, and what went through."""
    forwarder = Forwarder(*server_of(dsn))
    listener = await asyncio.start_server(forwarder.carry, HERE, 0)
    port = listener.sockets[0].getsockname()[1]
    process = await asyncio.create_subprocess_exec(*command, "--dsn", through(dsn, port))
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, lambda: None)  # a terminal's Ctrl-C reaches the command by itself
    loop.add_signal_handler(signal.SIGTERM, process.terminate)
    code = await process.wait()
    listener.close()
    return code, forwarder.counts


def main(words: List[str]) -> int:
    if len(words) < 3:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    code, counts = asyncio.run(counted(words[1], words[2:]))
    Path(words[0]).write_text("".join(f"{name}={value}\n" for name, value in asdict(counts).items()), "utf-8")
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
