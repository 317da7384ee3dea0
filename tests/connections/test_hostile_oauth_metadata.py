"""Hostile metadata of OAuth: no browser is opened, and no other server is asked.

A server, or its authorization server, may say this of itself (mcp-remote: CVE-2025-6514).
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from werkzeug.wrappers import Request, Response

from covalt_git.connections.definition import Definition, Name
from covalt_git.connections.login_reach import LoginCallbacks
from covalt_git.connections.oauth_login import sign_in
from covalt_git.errors import CovaltError
from covalt_git.hosts import Reach
from tests.wsgi_server import listening

pytestmark = pytest.mark.usefixtures("config_folder")

ELSEWHERE = "https://as.example"
URLS = yaml.load(
    Path(__file__).with_name("hostile_urls.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader
)


@dataclass
class Liar:
    """A server whose metadata a test changes: by other fields, or by other bytes."""

    url: str = ""
    resource: Any = field(default_factory=dict)
    metadata: Any = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    requested: list[str] = field(default_factory=list)

    def document(self, path: str) -> bytes:
        if "oauth-protected-resource" in path:
            about = {"resource": f"{self.url}/mcp", "authorization_servers": [self.url]}
            return self._changed(about, self.resource)
        if ".well-known" in path:
            about = {
                "issuer": self.url,
                "token_endpoint": f"{self.url}/token",
                "authorization_endpoint": f"{self.url}/authorize",
                "registration_endpoint": f"{self.url}/register",
                "code_challenge_methods_supported": ["S256"],
            }
            return self._changed(about, self.metadata)
        if path == "/register":
            return b'{"client_id": "c", "redirect_uris": []}'
        return b'{"access_token": "t", "token_type": "Bearer"}'

    def _changed(self, about: dict[str, Any], changes: Any) -> bytes:
        if isinstance(changes, bytes):
            return changes
        return json.dumps({**about, **changes}).encode()


@contextmanager
def serving(liar: Liar) -> Iterator[None]:
    @Request.application
    def answer(request: Request) -> Response:
        liar.requested.append(request.path)
        body = liar.document(request.path)
        to = next((to for part, to in liar.redirects.items() if part in request.path), None)
        if to is not None:
            return Response(body, 307, {"Location": to})
        return Response(body, 401 if request.path == "/mcp" else 200)

    with listening(answer) as port:
        liar.url = f"http://127.0.0.1:{port}"
        yield


def failure(liar: Liar, root: Path) -> str:
    """Return why signing in fails, which opens no browser and asks for no token."""
    opened: list[str] = []
    with serving(liar):
        name, reach = Name(root, "demo", "remote"), Reach.of(liar.url)
        defined = Definition(name, "streamable-http", url=f"{liar.url}/mcp", reach=reach)
        with pytest.raises(CovaltError) as raised:
            sign_in(defined, LoginCallbacks(lambda _: None, opened.append, opened.append), wait_s=5)
    assert opened == []
    assert "/token" not in liar.requested
    return raised.value.message


@pytest.mark.parametrize(
    "url", [*URLS, f"{ELSEWHERE}/{'a' * 9000}"], ids=lambda url: repr(url)[:40]
)
def test_a_hostile_authorization_endpoint_is_not_opened(tmp_path: Path, url: object) -> None:
    why = failure(Liar(metadata={"authorization_endpoint": url}), tmp_path)

    assert "authorization_endpoint" in why
    assert why.isprintable()


@pytest.mark.parametrize("name", ["token_endpoint", "registration_endpoint", "issuer"])
@pytest.mark.parametrize(
    "url", ["http://as.example/", "https://192.168.0.1/", "https://a@as.example/", "file:///x"]
)
def test_no_other_endpoint_leads_elsewhere(tmp_path: Path, name: str, url: str) -> None:
    liar = Liar(metadata={name: url})

    assert name in failure(liar, tmp_path)
    assert "/register" not in liar.requested


@pytest.mark.parametrize(
    "url", ["http://as.example/", "https://[fd00::1]/", "https://a@as.example/", "file:///x", 7]
)
def test_an_authorization_server_that_may_not_be_reached_is_not_asked(
    tmp_path: Path, url: object
) -> None:
    liar = Liar(resource={"authorization_servers": [url]})

    assert "an authorization server" in failure(liar, tmp_path)
    assert "/mcp" in liar.requested
    others = [path for path in liar.requested if "oauth-protected-resource" not in path]
    assert {*others} == {"/mcp"}


@pytest.mark.parametrize(
    ("liar", "why"),
    [
        (Liar(metadata={"issuer": ELSEWHERE}), "issuer mismatch"),
        (Liar(resource={"resource": f"{ELSEWHERE}/mcp"}), "does not match expected"),
        (Liar(metadata={"code_challenge_methods_supported": ["plain"]}), "PKCE"),
        (Liar(metadata=b" " * (300 << 10)), "more than 256 KiB"),
        (
            Liar(redirects={"well-known": "http://169.254.169.254/", "/register": "/register"}),
            "307",
        ),
        (Liar(redirects={"/register": f"{ELSEWHERE}/register"}), "not followed"),
    ],
    ids=["issuer", "resource", "PKCE", "large", "redirect", "redirected registration"],
)
def test_metadata_that_contradicts_itself_is_refused(tmp_path: Path, liar: Liar, why: str) -> None:
    assert why in failure(liar, tmp_path)


@pytest.mark.parametrize("body", [b"[" * 100_000, b"{", b"[]", b"<!doctype html>", b"\xff\xfe"])
def test_a_document_that_is_no_metadata_is_ignored(tmp_path: Path, body: bytes) -> None:
    liar = Liar(resource=body, metadata=body, redirects={"/register": "/nowhere"})

    failure(liar, tmp_path)

    assert "/register" in liar.requested  # the endpoint of a server without metadata
