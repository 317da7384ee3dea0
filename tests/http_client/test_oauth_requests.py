"""Tokens on requests: to one origin only, and again where one was refused and renewed."""

from __future__ import annotations

import asyncio

import httpx2
import pytest

from covalt_git.http_client.oauth_requests import BearerAuth

URL = "https://server.example/mcp"
TOO_SMALL = 'Bearer error="insufficient_scope", scope="write"'


class Tokens:
    """Tokens that are renewed to the next of some, and what was said of them."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = list(tokens)
        self.insufficient_for: list[tuple[int, str]] = []

    async def current(self) -> str:
        """Return the first."""
        return self.tokens[0]

    async def renewed(self, refused: str) -> str:
        """Return the next."""
        assert refused == self.tokens.pop(0)
        return self.tokens[0] if self.tokens else ""

    async def insufficient(self, status: int, challenge: str) -> None:
        """Take note of it."""
        self.insufficient_for.append((status, challenge))


def sent(tokens: Tokens, url: str, *answers: tuple[int, str]) -> list[str | None]:
    """Return what said who asks, in each request that was sent for one."""

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
        raise AssertionError("it goes on and on")

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
def test_no_other_origin_is_told_a_token(url: str) -> None:
    assert sent(Tokens("t"), url, (401, "")) == [None]


def test_a_token_is_sent_to_all_of_its_origin() -> None:
    assert sent(Tokens("t"), "https://SERVER.example:443/messages", (200, "")) == ["Bearer t"]


def test_a_token_that_is_refused_is_renewed_once() -> None:
    tokens = Tokens("one", "two", "three")

    assert sent(tokens, URL, (401, ""), (401, "")) == ["Bearer one", "Bearer two"]
    assert tokens.insufficient_for == [(401, "")]


def test_who_has_no_token_asks_without_one() -> None:
    tokens = Tokens("")

    assert sent(tokens, URL, (401, "Bearer")) == [None]
    assert tokens.insufficient_for == [(401, "Bearer")]


def test_only_a_token_that_allows_too_little_is_noted_of_what_is_forbidden() -> None:
    tokens = Tokens("t")

    assert sent(tokens, URL, (403, "")) == ["Bearer t"]
    assert tokens.insufficient_for == []
    assert sent(tokens, URL, (403, TOO_SMALL)) == ["Bearer t"]
    assert tokens.insufficient_for == [(403, TOO_SMALL)]
