"""A real server with an authorization server, and a person whose browser follows where it is led."""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from covalt_git.connections.definition import Definition, Name
from covalt_git.connections.login_reach import LoginCallbacks
from covalt_git.connections.token_store import StoredLogin
from covalt_git.hosts import Reach, WebOrigin

SERVERS = Path(__file__).parents[2] / "fixtures" / "servers"


@dataclass
class Guarded:
    """A server, and the authorization server that guards it."""

    port: int
    authorization: int

    @property
    def url(self) -> str:
        """The server's address."""
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def issuer(self) -> str:
        """The authorization server's."""
        return f"http://127.0.0.1:{self.authorization}"

    def end(self, what: str) -> None:
        """Take back all tokens of a kind: access or refresh."""
        visit(f"{self.issuer}/end?what={what}")

    def set(self, *, wrong: str = "", expires: int = 3600) -> None:
        """Have something wrong from now on, and tokens last so many seconds."""
        visit(f"{self.issuer}/set?wrong={wrong}&expires={expires}")

    def log(self) -> list[str]:
        """Return what was asked of the authorization server."""
        return list(json.loads(visit(f"{self.issuer}/log")))

    def defined(self, root: Path) -> Definition:
        """Return how the server is reached."""
        name = Name(root, "demo", "remote", "c1")
        reach = Reach.of(f"http://127.0.0.1:{self.port}")
        return Definition(name, "streamable-http", url=self.url, reach=reach)


@contextmanager
def serving(script: str, *words: str, **env: str) -> Iterator[list[int]]:
    """Run a server of ``fixtures/servers`` with variables of its own, and yield its ports."""
    command = [sys.executable, str(SERVERS / script), *words]
    variables = {**os.environ, **env}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=variables, text=True) as process:
        assert process.stdout is not None
        try:
            yield [int(port) for port in process.stdout.readline().split()]
        finally:
            process.kill()


@contextmanager
def guarded(**env: str) -> Iterator[Guarded]:
    """Run a server that requires a login."""
    with serving("with_sign_in.py", **env) as ports:
        yield Guarded(*ports)


@dataclass
class Following:
    """A user whose browser follows redirects, with the reported texts."""

    origins: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    @property
    def person(self) -> LoginCallbacks:
        """The person."""

        def visits(origin: WebOrigin) -> None:
            self.origins.append(str(origin))

        def opens(address: str) -> None:
            visit(address)

        return LoginCallbacks(visits, self.asked.append, opens)


def visit(address: str) -> str:
    """Follow a URL, and return the last response."""
    with suppress(urllib.error.HTTPError), urllib.request.urlopen(address, timeout=10) as page:
        return str(page.read().decode())
    return ""


class _NotFollowed(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object, **__: object) -> None:
        return None


def redirect_of(address: str) -> str:
    """Return where a URL redirects to, which is not followed."""
    try:
        urllib.request.build_opener(_NotFollowed).open(address, timeout=10)
    except urllib.error.HTTPError as error:
        return str(error.headers["Location"])
    raise AssertionError(f"{address} does not redirect")


def stored_login(project: Path, url: str) -> StoredLogin:
    """Return a login as it is stored after signing in to the server ``remote`` of ``demo``."""
    return StoredLogin(
        project=str(project),
        toolset_id="demo",
        server_id="remote",
        url=url,
        issuer="https://as.example",
        origins=("https://as.example",),
        token_endpoint="https://as.example/token",
        resource=None,
        client_id="c",
        access_token="t0ken",
        signed_in_at="2026-11-22T00:00:00Z",
    )
