"""Documents about signing in that mean harm: no browser is opened, and nobody else is gone to.

They are what a server, or its authorization server, may say of itself (mcp-remote: CVE-2025-6514).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from covalt_git.connections.definition import Definition, Name
from covalt_git.connections.oauth_login import Person, sign_in
from covalt_git.errors import CovaltError
from covalt_git.hosts import Reach

ELSEWHERE = "https://as.example"


@dataclass
class Liar:
    """A server that guards itself, and says of it what a test wants."""

    address: str = ""
    resource: Any = None
    metadata: Any = None
    redirects: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def answer(self, path: str) -> Any:
        """Return the document at a path."""
        if "oauth-protected-resource" in path:
            said = {"resource": f"{self.address}/mcp", "authorization_servers": [self.address]}
            return _over(said, self.resource)
        if ".well-known" in path:
            said = {
                "issuer": self.address,
                "authorization_endpoint": f"{self.address}/authorize",
                "token_endpoint": f"{self.address}/token",
                "registration_endpoint": f"{self.address}/register",
                "code_challenge_methods_supported": ["S256"],
            }
            return _over(said, self.metadata)
        if path == "/register":
            return {"client_id": "c", "redirect_uris": []}
        return {"access_token": "t", "token_type": "Bearer"}


def _over(said: dict[str, Any], other: Any) -> Any:
    return {**said, **other} if isinstance(other, dict) else (said if other is None else other)


@contextmanager
def serving(liar: Liar) -> Iterator[None]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            liar.asked.append(self.path)
            document = liar.answer(self.path)
            body = document if isinstance(document, bytes) else json.dumps(document).encode()
            to = next((to for part, to in liar.redirects.items() if part in self.path), None)
            status = 401 if self.path == "/mcp" else 200 if to is None else 307
            self.send_response(status)
            if to is not None:
                self.send_header("Location", to)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        liar.address = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        try:
            yield
        finally:
            server.shutdown()


def refused(liar: Liar, root: Path) -> str:
    """Try to sign in; return why that came to nothing, once it is sure that nobody was led anywhere."""
    led: list[str] = []
    with serving(liar):
        defined = Definition(
            Name(root, "demo", "remote"),
            "streamable-http",
            url=f"{liar.address}/mcp",
            reach=Reach.of(liar.address),
        )
        with pytest.raises(CovaltError) as caught:
            sign_in(defined, Person(lambda _: None, led.append, led.append), wait_s=5)
    assert led == []
    assert "/token" not in liar.asked
    return caught.value.message


@pytest.fixture(autouse=True)
def own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


ADDRESSES = [
    "javascript:alert(1)",
    "file:///etc/passwd",
    "data:text/html,<script>alert(1)</script>",
    "vscode://file/etc/passwd",
    "ms-msdt:/id",
    "about:blank",
    "ftp://as.example/",
    "--help",
    "-new-window https://as.example/",
    "https://as.example/a --flag",
    "https://as.example/\n--flag",
    "https://as.example/\t--flag",
    "https://as.example/\x00",
    "https://as.example/\u202egnp.exe",
    "https://as.example/$(touch x)",
    "https://as.example/`touch x`",
    "https://as.example/;touch x",
    "https://as.example/|touch",
    'https://as.example/"&calc&"',
    "https://good.example@evil.example/",
    "https://user:password@as.example/",
    "https://good.example\\@evil.example/",
    "https://\u0430pple.example/",
    "http://as.example/authorize",
    "https://10.0.0.1/authorize",
    "https://169.254.169.254/latest/meta-data",
    "https://[::ffff:10.0.0.1]/",
    "https://0x7f000001/",
    "https://2130706433/",
    "https://as.example:99999/",
    "https:///authorize",
    "//as.example/authorize",
    "/authorize",
    "",
    "https://as.example/" + "a" * 9000,
    None,
    42,
    ["https://as.example/"],
    {"url": "https://as.example/"},
]


@pytest.mark.parametrize("address", ADDRESSES, ids=lambda one: repr(one)[:40])
def test_no_hostile_address_is_opened(tmp_path: Path, address: object) -> None:
    said = refused(Liar(metadata={"authorization_endpoint": address}), tmp_path)

    assert "authorization_endpoint" in said
    assert said.isprintable()


@pytest.mark.parametrize("name", ["token_endpoint", "registration_endpoint", "issuer"])
@pytest.mark.parametrize(
    "address", ["http://as.example/", "https://192.168.0.1/", "https://a@as.example/", "file:///x"]
)
def test_no_other_part_of_it_leads_elsewhere(tmp_path: Path, name: str, address: str) -> None:
    liar = Liar(metadata={name: address})

    assert name in refused(liar, tmp_path)
    assert "/register" not in liar.asked


@pytest.mark.parametrize(
    "server", ["http://as.example/", "https://[fd00::1]/", "https://a@as.example/", "file:///x", 7]
)
def test_no_authorization_server_is_gone_to_that_nobody_may_reach(
    tmp_path: Path, server: object
) -> None:
    liar = Liar(resource={"authorization_servers": [server]})

    assert "an authorization server" in refused(liar, tmp_path)
    assert "/mcp" in liar.asked
    assert all("oauth-protected-resource" in path or path == "/mcp" for path in liar.asked)


@pytest.mark.parametrize(
    ("liar", "why"),
    [
        (Liar(metadata={"issuer": ELSEWHERE}), "issuer mismatch"),
        (Liar(resource={"resource": f"{ELSEWHERE}/mcp"}), "does not match expected"),
        (Liar(metadata={"code_challenge_methods_supported": ["plain"]}), "cannot do PKCE"),
        (Liar(metadata=b" " * (300 << 10)), "more than 256 KiB"),
        (
            Liar(redirects={"well-known": "http://169.254.169.254/", "/register": "/register"}),
            "307",
        ),
        (Liar(redirects={"/register": f"{ELSEWHERE}/register"}), "not followed"),
    ],
)
def test_what_does_not_agree_is_refused(tmp_path: Path, liar: Liar, why: str) -> None:
    assert why in refused(liar, tmp_path)


@pytest.mark.parametrize("body", [b"[" * 100_000, b"{", b"[]", b"<!doctype html>", b"\xff\xfe"])
def test_a_document_that_is_none_is_as_if_it_were_not_there(tmp_path: Path, body: bytes) -> None:
    liar = Liar(resource=body, metadata=body, redirects={"/register": "/nowhere"})

    refused(liar, tmp_path)

    assert "/register" in liar.asked  # the address that a server without documents has for it
