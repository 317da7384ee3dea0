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
    ("url", "tokens", "answers", "sent_tokens", "refusals"),
    [
        ("https://other.example/mcp", ["t"], [(401, "")], [None], []),
        ("https://server.example:8443/mcp", ["t"], [(401, "")], [None], []),
        ("http://server.example/mcp", ["t"], [(401, "")], [None], []),
        ("https://a.server.example/mcp", ["t"], [(401, "")], [None], []),
        ("https://server.example.evil.example/mcp", ["t"], [(401, "")], [None], []),
        ("https://SERVER.example:443/messages", ["t"], [(200, "")], ["t"], []),
        (URL, ["one", "two", "three"], [(401, ""), (401, "")], ["one", "two"], [(401, "")]),
        (URL, [""], [(401, "Bearer")], [None], [(401, "Bearer")]),
        (URL, ["t"], [(403, "")], ["t"], []),
        (URL, ["t"], [(403, TOO_SMALL)], ["t"], [(403, TOO_SMALL)]),
    ],
)
def test_a_token_is_sent_to_its_origin_alone_and_refreshed_once(
    url: str,
    tokens: list[str],
    answers: list[tuple[int, str]],
    sent_tokens: list[str | None],
    refusals: list[tuple[int, str]],
) -> None:
    source = Tokens(*tokens)

    assert sent(source, url, *answers) == [one and f"Bearer {one}" for one in sent_tokens]
    assert source.insufficient_for == refusals
