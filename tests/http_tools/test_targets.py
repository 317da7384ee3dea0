"""What no HTTP tool reaches, whatever road leads there: judged by the connections that were begun.

A fake resolver reads every spelling as C libraries do (``inet_aton``), so that whatever got past the
checks would be connected to.
"""

from __future__ import annotations

import ipaddress
import socket
import sys
from typing import TYPE_CHECKING, Any

import pytest

from covalt_git.access.grants import Granted
from covalt_git.credentials.values import SecretStore
from covalt_git.errors import CovaltError
from covalt_git.hosts import Reach
from covalt_git.http_client import HttpClient, Patience, Request
from covalt_git.http_tools.exchange import HttpJob, Surroundings, run
from covalt_git.http_tools.files import WorkspaceFiles
from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.models.tool import Tool
from covalt_git.models.tool_properties import HttpRequest, Limits
from tests.http_tools.upstream import Upstream, upstream

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

PUBLIC = "93.184.215.14"
NAMES = {
    "metadata.google.internal": "169.254.169.254",
    "metadata": "169.254.169.254",
    "instance-data": "169.254.169.254",
    "metadata.tencentyun.com": "169.254.0.23",
    "kubernetes.default.svc": "10.96.0.1",
    "host.docker.internal": "192.168.65.254",
    "localtest.me": "127.0.0.1",
    "localhost": "127.0.0.1",
    "a.localhost": "127.0.0.1",
}


def wide(text: str) -> str:
    """Return a text in the wide letters of East Asian fonts (U+FF01 and on)."""
    return "".join(chr(ord(letter) + 0xFEE0) for letter in text)


TARGETS = {
    "this machine": (
        *(
            "127.0.0.1",
            "127.0.0.53",
            "127.255.255.254",
            "LOCALHOST",
        ),
        *("[::1]", "[0:0:0:0:0:0:0:1]", "[0000::0001]", "0", "0.0.0.0", "0.1.2.3", "[::]"),
    ),
    "trailing dots": ("127.0.0.1.", "localhost.", "10.0.0.1.", "metadata.google.internal."),
    "short, octal, hex and dword": (
        *("127.1", "127.0.1", "2130706433", "017700000001", "0x7f000001", "0x7f.1", "0x7f.0.0.1"),
        *("0177.0.0.1", "0177.0x0.0.1", "127.0.0.01", "00.0.0.0", "3232235777", "0xc0a80101"),
        *("0300.0250.1.1", "10.1", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376"),
        *("169.254.43518", "0xA9.0xFE.0xA9.0xFE"),
    ),
    "digits and letters of other scripts": (
        *(
            "127。0。0。1",
            "①②⑦.⓪.⓪.①",
            wide("127.0.0.1"),
            "₁₂₇.0.0.1",
            "ⓛocalhost",
            wide("localhost"),
        ),
        *(wide("169.254.169.254"), "①⑥⑨.②⑤④.①⑥⑨.②⑤④"),
    ),
    "private networks": (
        *("10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.0.1"),
        *("192.168.255.255", "[fc00::1]", "[fd12:3456::1]", "[fdff::1]", "[fec0::1]"),
    ),
    "carriers' networks": ("100.64.0.1", "100.127.255.255", "100.100.100.200"),
    "the local link": (
        *("169.254.169.254", "169.254.170.2", "169.254.0.1", "169.254.169.253"),
        *("[fe80::1]", "[fe80::a9fe:a9fe]", "[fe80::1%25lo]", "[febf::1]"),
    ),
    "names of metadata and of clusters": tuple(NAMES),
    "clouds' own": ("168.63.129.16", "192.0.0.192", "[fd00:ec2::254]", "[fd20:ce::254]"),
    "IPv4 mapped into IPv6": (
        *("[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::FFFF:10.0.0.1]", "[::ffff:c0a8:101]"),
        *("[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[::ffff:0:127.0.0.1]"),
    ),
    "IPv4 compatible": ("[::127.0.0.1]", "[::7f00:1]", "[::a9fe:a9fe]"),
    "NAT64": (
        *("[64:ff9b::7f00:1]", "[64:ff9b::a9fe:a9fe]", "[64:ff9b::10.0.0.1]"),
        "[64:ff9b:1::7f00:1]",
    ),
    "6to4, Teredo and ISATAP": (
        *("[2002:7f00:1::]", "[2002:a9fe:a9fe::1]", "[2002:c0a8:101::]", "[2001::1]"),
        *("[2606:4700::5efe:7f00:1]", "[2606:4700::200:5efe:10.0.0.1]"),
    ),
    "multicast": ("224.0.0.1", "239.255.255.250", "[ff02::1]", "[ff05::2]"),
    "reserved and documentation": (
        *("240.0.0.1", "255.255.255.255", "198.18.0.1", "192.88.99.1", "192.0.2.1"),
        *("198.51.100.7", "203.0.113.9", "[2001:db8::1]", "[3fff::1]", "[5f00::1]", "[100::1]"),
    ),
}
EACH = [pytest.param(host, id=f"{kind}: {host}") for kind in TARGETS for host in TARGETS[kind]]


def lenient(host: str, _: int) -> Sequence[str]:
    """Resolve as the most willing of resolvers would."""
    plain = host.strip("[]").partition("%")[0].rstrip(".").lower()
    plain = NAMES.get(plain, plain)
    try:
        return [str(ipaddress.IPv6Address(plain))]
    except ValueError:
        return [socket.inet_ntoa(socket.inet_aton(plain))]


BY_ADDRESS = sorted(
    {
        address
        for hosts in TARGETS.values()
        for host in hosts
        if host.isascii()
        for address in lenient(host, 443)
    }
)


class Connections:
    """Every connection that this process begins while the block lasts, by the system's own account."""

    def __init__(self) -> None:
        self.begun: list[Any] = []

    def __enter__(self) -> list[Any]:
        _watching.append(self)
        return self.begun

    def __exit__(self, *_: object) -> None:
        _watching.remove(self)


_watching: list[Connections] = []


def _hear(event: str, args: tuple[Any, ...]) -> None:
    if _watching and event == "socket.connect":
        for one in _watching:
            one.begun.append(args[1][:2])


sys.addaudithook(_hear)


@pytest.fixture(scope="module")
def served() -> Iterator[Upstream]:
    with upstream() as made:
        yield made


def code_of(
    folder: Path, address: str, /, *, granted: Sequence[str], resolve: Any = lenient, **query: str
) -> str:
    """Call an HTTP tool whose manifest says that address; return how it failed."""
    tool = Tool(
        tool_id="web:it",
        toolset_id="web",
        name="It",
        kind="http",
        http=HttpRequest.model_validate({"url": address, "query": query, "retries": 0}),
        input_schema={"type": "object"},
    )
    job = HttpJob(
        tool=tool,
        args={},
        granted=Granted("web", Reach.of(*granted), {}),
        declared=frozenset(),
        secrets=SecretStore({}),
        files=WorkspaceFiles(folder, WorkspaceConfig(), "sha1"),
        limits=Limits(timeout_s=20, output_mb=1),
    )
    outcome = run(job, Surroundings(resolve=resolve))
    assert outcome.error is not None
    return outcome.error.code


REFUSED = {"refused_destination", "bad_host", "bad_redirect", "bad_url_template"}


def test_there_are_at_least_the_eighty_targets_that_were_promised() -> None:
    assert len(EACH) == len({host for hosts in TARGETS.values() for host in hosts}) >= 80
    assert len(BY_ADDRESS) >= 50


def test_a_connection_is_seen_where_nothing_stops_it(tmp_path: Path, served: Upstream) -> None:
    with Connections() as begun:
        code = code_of(tmp_path, f"{served.url}/status/410", granted=[served.address])

    assert (code, begun) == ("http_410", [("127.0.0.1", served.port)])


@pytest.mark.parametrize("host", EACH)
def test_a_target_is_not_reached_where_every_public_host_may_be(host: str) -> None:
    client = HttpClient(Reach(anywhere=True), resolve=lenient)

    with Connections() as begun:
        for port in ("", ":8080"):
            with pytest.raises(CovaltError) as caught:
                client.send(Request("GET", f"https://{host}{port}/"), Patience(20))
            assert caught.value.code in REFUSED

    assert begun == []


@pytest.mark.parametrize("host", EACH)
def test_a_target_is_not_reached_by_a_manifest_that_names_it(tmp_path: Path, host: str) -> None:
    with Connections() as begun:
        codes = {
            code_of(tmp_path, f"{scheme}://{host}/", granted=["*.example.com", PUBLIC])
            for scheme in ("http", "https")
        }

    assert codes <= {"grant_needed", *REFUSED}
    assert begun == []


@pytest.mark.parametrize("address", BY_ADDRESS)
def test_a_target_is_not_reached_by_a_granted_name(tmp_path: Path, address: str) -> None:
    with Connections() as begun:
        codes = [
            code_of(
                tmp_path,
                "https://api.example.com/",
                granted=["*.example.com"],
                resolve=lambda _, __, answer=answer: answer,
            )
            for answer in ([address], [PUBLIC, address], [address, PUBLIC])
        ]

    assert (codes, begun) == (["refused_destination"] * 3, [])


@pytest.mark.parametrize("host", EACH)
def test_a_target_is_not_reached_by_a_redirect(tmp_path: Path, served: Upstream, host: str) -> None:
    with Connections() as begun:
        codes = {
            code_of(
                tmp_path,
                f"{served.url}/to",
                granted=[served.address, "*.example.com"],
                url=f"{scheme}//{host}/",
                code=code,
            )
            for code in ("302", "307")
            for scheme in ("http:", "https:", "")
        }

    assert codes <= REFUSED
    assert set(begun) == {("127.0.0.1", served.port)}


@pytest.mark.parametrize("address", BY_ADDRESS)
def test_a_target_is_not_reached_by_a_redirect_to_a_granted_name(
    tmp_path: Path, served: Upstream, address: str
) -> None:
    with Connections() as begun:
        code = code_of(
            tmp_path,
            f"{served.url}/to",
            url="https://api.example.com/",
            granted=[served.address, "*.example.com"],
            resolve=lambda host, _: [address if host == "api.example.com" else host],
        )

    assert (code, begun) == ("refused_destination", [("127.0.0.1", served.port)])


def test_a_name_that_changes_after_it_was_checked_is_not_asked_again(tmp_path: Path) -> None:
    """The second answer would be reached: what is connected to is what was checked."""
    answers = [["127.0.0.2"], ["127.0.0.1"]]
    with socket.create_server(("127.0.0.1", 0)) as inside, Connections() as begun:
        port = inside.getsockname()[1]
        code = code_of(
            tmp_path,
            f"http://api.example.com:{port}/",
            granted=[f"http://api.example.com:{port}", "127.0.0.2/32"],
            resolve=lambda _, __: answers.pop(0),
        )

    assert (code, begun, len(answers)) == ("connection_failed", [("127.0.0.2", port)], 1)
