"""What the HTTP client never connects to, whatever road leads there: judged by the connections that began.

A fake resolver reads every spelling as C libraries do (``inet_aton``), so that whatever got past the
checks would be connected to.
"""

import ipaddress
import socket
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import pytest
import yaml

from covalt_git.errors import CovaltError
from covalt_git.hosts import Reach
from covalt_git.http_client import ClientRequest, Deadline, HttpClient
from tests.connection_audit import Connections
from tests.http_tools.upstream import Upstream, there
from tests.test_hosts import KEPT

__all__ = ["there"]

DATA = yaml.load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)
HOSTS = [host for hosts in DATA["hosts"].values() for host in hosts]
PUBLIC = "93.184.215.14"
REFUSED = {"refused_destination", "bad_host", "bad_redirect", "bad_url_template"}


def lenient(host: str, _: int) -> Sequence[str]:
    """Resolve as the most willing of resolvers would."""
    plain = host.strip("[]").partition("%")[0].rstrip(".").lower()
    plain = DATA["names"].get(plain, plain)
    try:
        return [str(ipaddress.IPv6Address(plain))]
    except ValueError:
        return [socket.inet_ntoa(socket.inet_aton(plain))]


ADDRESSES = sorted(
    {*KEPT, *DATA["addresses"]}.union(*(lenient(host, 443) for host in HOSTS if host.isascii()))
)


def refusal(client: HttpClient, url: str) -> str:
    """Return the code with which a request is refused."""
    with pytest.raises(CovaltError) as caught:
        client.send(ClientRequest("GET", url), Deadline(20))
    return caught.value.code


def test_a_connection_is_seen_where_nothing_stops_it(there: Upstream) -> None:
    with Connections() as begun:
        HttpClient(Reach.of(there.address)).send(
            ClientRequest("GET", f"{there.url}/echo"), Deadline(20)
        )

    assert begun == [("127.0.0.1", there.port)]


def test_a_target_is_not_reached_where_every_public_host_may_be() -> None:
    client = HttpClient(Reach(anywhere=True), resolve=lenient)
    urls = [f"{start}/" for host in HOSTS for start in (f"https://{host}", f"http://{host}:8080")]

    with Connections() as begun:
        reached = [url for url in urls if refusal(client, url) not in REFUSED]

    assert (reached, begun) == ([], [])


def test_a_target_is_not_reached_by_a_granted_name() -> None:
    answers = [answer for one in ADDRESSES for answer in ([one], [PUBLIC, one], [one, PUBLIC])]
    left = iter(answers)
    client = HttpClient(Reach.of("*.example.com"), resolve=lambda _, __: next(left))

    with Connections() as begun:
        codes = {refusal(client, "https://api.example.com/latest/meta-data") for _ in answers}

    assert (codes, begun) == ({"refused_destination"}, [])


def test_a_target_is_not_reached_by_a_redirect(there: Upstream) -> None:
    client = HttpClient(Reach.of(there.address, "*.example.com"), resolve=lenient)
    targets = [
        target
        for host in HOSTS
        for target in (f"302&url={quote(f'https://{host}/')}", f"307&url={quote(f'//{host}/')}")
    ]

    with Connections() as begun:
        urls = [f"{there.url}/to?code={target}" for target in targets]
        reached = [url for url in urls if refusal(client, url) not in REFUSED]

    assert reached == []
    assert set(begun) == {("127.0.0.1", there.port)}


@pytest.mark.parametrize("target", DATA["redirects"])
def test_a_redirect_is_checked_like_a_first_request(there: Upstream, target: str) -> None:
    client = HttpClient(Reach.of(there.address))

    with Connections() as begun:
        assert refusal(client, f"{there.url}/to?url={target}") in REFUSED

    assert begun == [("127.0.0.1", there.port)]


def test_a_target_is_not_reached_by_a_redirect_to_a_granted_name(there: Upstream) -> None:
    left = iter(ADDRESSES)

    def resolve(host: str, _: int) -> Sequence[str]:
        return [next(left) if host == "api.example.com" else host]

    client = HttpClient(Reach.of(there.address, "*.example.com"), resolve=resolve)
    with Connections() as begun:
        codes = {refusal(client, f"{there.url}/to?url=https://api.example.com/") for _ in ADDRESSES}

    assert (codes, {*begun}) == ({"refused_destination"}, {("127.0.0.1", there.port)})
