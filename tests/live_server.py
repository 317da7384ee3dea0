"""The server of a project as a browser meets it: on a port, with a log of what it was asked."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flask import Flask

from covalt_server.app import create_app
from tests.api_client import TOKEN
from tests.wsgi_server import listening


@dataclass
class Live:
    """A running server: its app, its address, and the path of every request with its query."""

    app: Flask
    port: int
    paths: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.at("127.0.0.1")

    def at(self, host: str) -> str:
        """Return the address by another name of this machine."""
        return f"http://{host}:{self.port}"

    @property
    def door(self) -> str:
        """The address that opens it, as the command line prints it."""
        return f"{self.url}/?token={TOKEN}"


@contextmanager
def live(root: Path, *, prepare: Callable[[Flask], None] = lambda _: None) -> Iterator[Live]:
    """Serve a project; ``prepare`` may add to the app before the first request."""

    def noted(environ: dict[str, Any], start: Any) -> Iterator[bytes]:
        query = environ.get("QUERY_STRING")
        found.paths.append(environ["PATH_INFO"] + (f"?{query}" if query else ""))
        answer: Any = found.app(environ, start)
        with closing(answer):  # werkzeug does not close it if the client resets the connection
            yield from answer

    with listening(noted) as port:
        found = Live(create_app(root, token=TOKEN, port=port), port)
        prepare(found.app)
        yield found
