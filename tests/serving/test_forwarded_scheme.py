"""Requests that a reverse proxy received over TLS; :mod:`test_reverse_proxies` has real proxies."""

from collections.abc import Iterator
from http.client import HTTPConnection

import pytest

from tests.api_client import make_project
from tests.uvicorn_server import PATIENCE_S, TOKEN, served

METADATA = "/.well-known/oauth-protected-resource/mcp"


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    root = make_project(tmp_path_factory.mktemp("proxied") / "project")
    (root / "covalt.yaml").write_text("version: 1\nserver: {allowed_hosts: [Tools.example.com]}\n")
    with served(root) as port:
        yield port


def answer(port: int, path: str, **headers: str) -> tuple[str, str]:
    """Return the cookie and the body of an answer."""
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request("GET", path, headers=names)
    response = connection.getresponse()
    content = response.headers.get("Set-Cookie", ""), response.read().decode()
    connection.close()
    return content


@pytest.mark.parametrize(
    ("host", "proto", "url"),
    [
        ("tools.example.com", "https", "https://tools.example.com/mcp"),
        ("tools.example.com", "http", "http://tools.example.com/mcp"),
        ("tools.example.com", "javascript", "http://tools.example.com/mcp"),
        ("127.0.0.1:PORT", "https", "http://127.0.0.1:PORT/mcp"),
    ],
)
def test_only_an_allowed_host_is_served_over_https(
    port: int, host: str, proto: str, url: str
) -> None:
    host, url = (text.replace("PORT", str(port)) for text in (host, url))
    body = answer(port, METADATA, Host=host, X_Forwarded_Proto=proto)[1]
    cookie = answer(port, f"/?token={TOKEN}", Host=host, X_Forwarded_Proto=proto)[0]

    assert f'"resource":"{url}"' in body
    assert ("; Secure" in cookie) == url.startswith("https")
