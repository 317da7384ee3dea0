"""Redis, as Debian packages it: ``apt install redis-server``."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from pathlib import Path

from tests.browser import missing

PROGRAM = "redis-server"


def require_redis() -> None:
    """Skip the test without Redis; in CI, fail."""
    if shutil.which(PROGRAM) is None:
        missing("Redis", "make redis")


class RedisServer:
    """A Redis server on loopback that keeps its data in a folder, so that it can be killed and started again."""

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        require_redis()
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._durable = durable
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port: int = found.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        words = [
            *(PROGRAM, "--bind", "127.0.0.1", "--port", str(self.port), "--save", ""),
            *("--appendonly", "yes" if self._durable else "no", "--dir", str(self._folder)),
        ]
        self._process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until = time.monotonic() + 30
        while not self._answers():
            assert time.monotonic() < until, "Redis does not answer"
            assert self._process.poll() is None, "Redis has ended"
            time.sleep(0.01)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as connection:
                connection.sendall(b"PING\r\n")
                # It loads its data first, and answers with an error meanwhile.
                return connection.recv(64).startswith(b"+PONG")
        except OSError:
            return False

    def kill(self) -> None:
        """Kill it, as a power cut does."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
