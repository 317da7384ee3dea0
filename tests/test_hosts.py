"""How hosts are written, which are granted, and that no spelling of a private one is a public one."""

import ipaddress
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalt_git.hosts import (
    BadHostError,
    HostRule,
    Reach,
    WebOrigin,
    is_local,
    is_loopback,
    normal_host,
    origin_of,
)
from tests.tables import tables

TABLES = tables(__file__)


@pytest.mark.parametrize(("text", "normal"), TABLES["host_has_one_form"])
def test_host_has_one_form(text: str, normal: str) -> None:
    assert normal_host(text) == normal


@pytest.mark.parametrize(
    "spelled",
    [
        pytest.param(
            lambda ip: f"::ffff:{int(ip) >> 16 & 0xFFFF:x}:{int(ip) & 0xFFFF:x}", id="3.11"
        ),
        pytest.param(lambda ip: f"::ffff:{ip.ipv4_mapped}", id="3.13"),
    ],
)
@pytest.mark.parametrize("text", ["::ffff:1.2.3.4", "::FFFF:102:304", "0:0:0:0:0:ffff:102:304"])
def test_an_ipv4_mapped_host_has_one_form_on_every_python(
    text: str,
    spelled: Callable[[ipaddress.IPv6Address], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ipaddress.IPv6Address, "__str__", spelled)

    origin = origin_of(f"https://[{text}]/")[0]

    assert str(origin) == "https://[::ffff:102:304]"
    assert HostRule.parse(f"[{text}]").host == origin.host
    assert Reach.of("[::ffff:102:304]").covers(origin)


@pytest.mark.parametrize("text", TABLES["ambiguous_host_is_refused"])
def test_ambiguous_host_is_refused(text: str) -> None:
    with pytest.raises(BadHostError):
        normal_host(text)


@pytest.mark.parametrize("url", TABLES["other_urls_have_no_origin"])
def test_other_urls_have_no_origin(url: str) -> None:
    with pytest.raises(BadHostError):
        origin_of(url)


KEPT = [
    *("127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1"),
    *("172.31.255.1", "192.168.1.1", "169.254.169.254", "169.254.170.2", "100.64.0.1"),
    *("100.100.100.200", "168.63.129.16", "192.0.0.192", "192.0.2.1", "198.18.0.1"),
    *("198.51.100.7", "203.0.113.9", "224.0.0.1", "239.1.1.1", "240.0.0.1"),
    *("255.255.255.255", "192.88.99.1"),
    *("::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:7f00:1", "::ffff:10.0.0.1"),
    *("::ffff:169.254.169.254", "::ffff:0:127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe"),
    *("64:ff9b:1::7f00:1", "2002:7f00:1::", "2002:a9fe:a9fe::1", "2001::1", "2001:db8::1"),
    *("fc00::1", "fd00:ec2::254", "fe80::1", "fe80::a9fe:a9fe", "fec0::1", "ff02::1", "100::1"),
    *("2606:4700::5efe:7f00:1", "2606:4700::200:5efe:10.0.0.1", "3fff::1", "5f00::1"),
]


@pytest.mark.parametrize(("text", "ports", "shown"), TABLES["rule_names_the_ports_that_it_covers"])
def test_rule_names_the_ports_that_it_covers(text: str, ports: list[int], shown: str) -> None:
    rule = HostRule.parse(text)
    host = "a.example.com" if rule.host.startswith("*") else rule.host or "10.1.2.3"
    tried = (80, 443, 8077, 8443)

    covered = {
        port
        for scheme in ("http", "https")
        for port in tried
        if rule.covers(WebOrigin(scheme, host, port))
    }

    assert (rule.ports, rule.shown) == (tuple(ports), shown)
    assert covered == set(ports)


@pytest.mark.parametrize("address", KEPT)
def test_reserved_address_is_never_public(address: str) -> None:
    assert is_local(address)
    assert Reach(anywhere=True).why_not("example.com", address)
    assert Reach.of("example.com").why_not("example.com", address)


@pytest.mark.parametrize(
    "address",
    ["8.8.8.8", "1.1.1.1", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"],
)
def test_a_public_address_may_be_reached(address: str) -> None:
    assert Reach.of("example.com").why_not("example.com", address) == ""


@given(st.ip_addresses())
def test_address_that_python_knows_to_be_private_is_local(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    private = address.is_private or address.is_loopback or address.is_link_local
    if private or address.is_multicast or address.is_unspecified:
        mapped = getattr(address, "ipv4_mapped", None)
        assert is_local(str(address)) or (mapped is not None and mapped.is_global)


@pytest.mark.parametrize(("rule", "url", "covered"), TABLES["rule_covers_exactly_its_hosts"])
def test_rule_covers_exactly_its_hosts(rule: str, url: str, *, covered: bool) -> None:
    assert HostRule.parse(rule).covers(origin_of(url)[0]) is covered


@pytest.mark.parametrize(
    "text", ["*", "*.*", "a.*.b", "", "a/b", "10.0.0.1/8", "a:b", "u@h", "http://"]
)
def test_invalid_rule_is_refused(text: str) -> None:
    with pytest.raises(BadHostError):
        HostRule.parse(text)


def test_a_name_leads_into_a_private_network_only_where_that_was_granted_too() -> None:
    alone = Reach.of("wiki.example.com", "10.0.0.5")
    both = Reach.of("wiki.example.com", "10.0.0.0/8")

    assert alone.why_not("wiki.example.com", "10.0.0.5") == (
        "wiki.example.com resolves to 10.0.0.5, which is a private network"
    )
    assert alone.why_not("10.0.0.5", "10.0.0.5") == ""
    assert both.why_not("wiki.example.com", "::ffff:10.0.0.5") == ""
    assert both.why_not("wiki.example.com", "127.0.0.1")


def test_localhost_leads_to_this_machine_and_nowhere_else() -> None:
    reach = Reach.of("localhost:5000")

    assert reach.why_not("localhost", "127.0.0.1") == reach.why_not("localhost", "::1") == ""
    assert reach.why_not("localhost", "10.0.0.1")
    assert reach.why_not("example.com", "127.0.0.1")


def test_anywhere_is_every_public_host_over_https() -> None:
    reach = Reach(anywhere=True)

    assert reach.covers(WebOrigin("https", "example.com", 8443))
    assert not reach.covers(WebOrigin("http", "example.com", 80))


def test_this_machine_is_known_by_its_names() -> None:
    for host in ("localhost", "a.localhost", "127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"):
        assert is_loopback(host), host
    for host in ("10.0.0.1", "0.0.0.0", "localhost.example", "fe80::1"):
        assert not is_loopback(host), host
