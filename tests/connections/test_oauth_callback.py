"""The callback URL of OAuth: it accepts one visit, with the secret state."""

import asyncio
from collections.abc import Sequence

import pytest

from covalt_git.connections.oauth_callback import Callback

RIGHT = "/callback?code=c&state=s3cret&iss=https%3A%2F%2Fas.example"


async def visit(callback: Callback, target: str, *, method: str = "GET", host: str = "") -> str:
    """Return the answer to a browser."""
    own = callback.url.removeprefix("http://").removesuffix("/callback")
    reader, writer = await asyncio.open_connection("127.0.0.1", int(own.partition(":")[2]))
    writer.write(f"{method} {target} HTTP/1.1\r\nHost: {host or own}\r\n\r\n".encode())
    answer = (await reader.read()).decode()
    writer.close()
    return answer


def answers(*visits: tuple[str, str, str]) -> tuple[Sequence[str], dict[str, str] | None]:
    """Return the answers to visits, and the parameters that the callback received."""

    async def meet() -> tuple[Sequence[str], dict[str, str] | None]:
        async with Callback() as callback:
            callback.expect("s3cret")
            heard = asyncio.create_task(callback.redirect())
            found = [
                await visit(callback, target, method=method, host=host)
                for target, method, host in visits
            ]
            await asyncio.sleep(0)
            return found, heard.result() if heard.done() else None

    return asyncio.run(meet())


def test_the_visit_with_the_state_is_accepted_once_and_its_page_loads_nothing() -> None:
    (page, again), heard = answers((RIGHT, "GET", ""), (RIGHT, "GET", ""))

    assert [one.split()[1] for one in (page, again)] == ["200", "410"]
    assert "Content-Security-Policy: default-src 'none'" in page
    assert "s3cret" not in page
    assert heard == {"code": "c", "state": "s3cret", "iss": "https://as.example"}


@pytest.mark.parametrize(
    ("target", "method", "host", "status"),
    [
        ("/callback?code=c&state=other", "GET", "", "400"),
        ("/callback?code=c&state=", "GET", "", "400"),
        ("/callback?code=c", "GET", "", "400"),
        ("/callback?state=s3cret", "GET", "", "400"),
        ("/callback?code=c&error=e&state=s3cret", "GET", "", "400"),
        ("/callback?code=c&code=d&state=s3cret", "GET", "", "400"),
        ("/callback?code=c&state=s3cret&state=s3cret", "GET", "", "400"),
        ("/callback?state=s3cret&code=c" + "&a=b" * 30, "GET", "", "400"),
        (RIGHT, "POST", "", "405"),
        (RIGHT, "GET", "evil.example", "400"),
        ("/callback/?code=c&state=s3cret", "GET", "", "404"),
        ("/?code=c&state=s3cret", "GET", "", "404"),
        ("http://127.0.0.1/callback?code=c&state=s3cret", "GET", "", "404"),
    ],
)
def test_other_visits_are_refused_and_change_nothing(
    target: str, method: str, host: str, status: str
) -> None:
    found, heard = answers((target, method, host), (RIGHT, "GET", ""))

    assert [one.split()[1] for one in found] == [status, "200"]
    assert heard is not None


def test_a_request_without_an_end_is_closed() -> None:
    async def meet() -> bytes:
        async with Callback() as callback:
            port = int(callback.url.split(":")[2].removesuffix("/callback"))
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"x" * (64 << 10))
            try:
                return await reader.read()
            except ConnectionResetError:
                return b""
            finally:
                writer.close()

    assert asyncio.run(meet()) == b""
