"""Bearer tokens on requests: for one origin, and refreshed once when one is refused."""

import asyncio

import httpx2
import pytest

from covalt_git.http_client.oauth_requests import BearerAuth

URL = "https://server.example/mcp"
TOO_SMALL = 'Bearer error="insufficient_scope", scope="write"'


class Tokens:
    """Tokens that are refreshed in turn; ``insufficient_for`` has the refusals."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = list(tokens)
        self.insufficient_for: list[tuple[int, str]] = []

    async def current(self) -> str:
        return self.tokens[0]

    async def refresh(self, refused: str) -> str:
        assert refused == self.tokens.pop(0)
        return self.tokens[0] if self.tokens else ""

    async def report_insufficient(self, status: int, challenge: str) -> None:
        self.insufficient_for.append((status, challenge))


def sent(tokens: Tokens, url: str, *answers: tuple[int, str]) -> list[str | None]:
    """Return the Authorization header of each request that is sent."""

    async def flow() -> list[str | None]:
        request = httpx2.Request("POST", url)
        found: list[str | None] = []
        running = BearerAuth(URL, tokens).async_auth_flow(request)
        outgoing = await anext(running)
        for status, challenge in answers:
            found.append(outgoing.headers.get("authorization"))
            headers = {"WWW-Authenticate": challenge}
            response = httpx2.Response(status, headers=headers, content=b"", request=outgoing)
            try:
                outgoing = await running.asend(response)
            except StopAsyncIteration:
                return found
        raise AssertionError("endless requests")

    return asyncio.run(flow())


@pytest.mark.parametrize(
    "url",
    [
        "https://other.example/mcp",
        "https://server.example:8443/mcp",
        "http://server.example/mcp",
        "https://a.server.example/mcp",
        "https://server.example.evil.example/mcp",
    ],
)
def test_a_token_is_not_sent_to_another_origin(url: str) -> None:
    assert sent(Tokens("t"), url, (401, "")) == [None]


def test_a_token_is_sent_to_every_url_of_its_origin() -> None:
    assert sent(Tokens("t"), "https://SERVER.example:443/messages", (200, "")) == ["Bearer t"]


def test_a_refused_token_is_refreshed_once() -> None:
    tokens = Tokens("one", "two", "three")

    assert sent(tokens, URL, (401, ""), (401, "")) == ["Bearer one", "Bearer two"]
    assert tokens.insufficient_for == [(401, "")]


def test_a_request_without_a_token_has_no_header() -> None:
    tokens = Tokens("")

    assert sent(tokens, URL, (401, "Bearer")) == [None]
    assert tokens.insufficient_for == [(401, "Bearer")]


def test_only_an_insufficient_scope_is_recorded_of_a_403() -> None:
    tokens = Tokens("t")

    assert sent(tokens, URL, (403, "")) == ["Bearer t"]
    assert tokens.insufficient_for == []
    assert sent(tokens, URL, (403, TOO_SMALL)) == ["Bearer t"]
    assert tokens.insufficient_for == [(403, TOO_SMALL)]
