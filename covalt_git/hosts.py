"""Network hosts: parsing of URLs and host rules, and the check whether a request is granted.

A URL is parsed once by a strict grammar, and only its parts are used afterwards, so that two parsers
cannot find different hosts in it.  The HTTP client and the egress proxy pass each address of :func:`resolve`
to :class:`Reach`.  The special-purpose networks are those of the IANA registries (RFC 6890 and
its updates, as of 2026-11) and the addresses that cloud providers reserve.
"""

from __future__ import annotations

import re
import socket
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.errors import CovaltError
from covalt_git.text import display

if TYPE_CHECKING:
    from collections.abc import Iterable

Ip = IPv4Address | IPv6Address

DEFAULT_PORTS = {"http": 80, "https": 443}

HOST = r"(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]+\]|[^\s/?#:@\[\]]+)"
_URL = "(?i)" + HOST + r"(?::(?P<port>[0-9]{1,5}))?(?P<rest>(?:[/?#].*)?)"
_AMBIGUOUS = rf"[\\{display.CONTROLS}]"
_NAME = r"(?=.{1,253}\Z)[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?)*"
_NUMBER = r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)"
_RULE = r"(?i)(?:(?P<scheme>https?)://)?(?P<host>\[[0-9a-f:.]+\]|[^\s/?#:@\[\]]+)(?::(?P<port>[0-9]{1,5}))?"
_MAX_PORT = 65535

_RESERVED_V4 = {
    IPv4Network("0.0.0.0/8"): "this machine",
    IPv4Network("10.0.0.0/8"): "a private network",
    IPv4Network("100.64.0.0/10"): "a carrier's own network",
    IPv4Network("127.0.0.0/8"): "this machine",
    IPv4Network("168.63.129.16/32"): "a cloud's own service",
    IPv4Network("169.254.0.0/16"): "the local link, which clouds use for metadata",
    IPv4Network("172.16.0.0/12"): "a private network",
    IPv4Network("192.0.0.0/24"): "reserved for protocols",
    IPv4Network("192.0.2.0/24"): "reserved for documentation",
    IPv4Network("192.88.99.0/24"): "reserved for relays",
    IPv4Network("192.168.0.0/16"): "a private network",
    IPv4Network("198.18.0.0/15"): "reserved for benchmarks",
    IPv4Network("198.51.100.0/24"): "reserved for documentation",
    IPv4Network("203.0.113.0/24"): "reserved for documentation",
    IPv4Network("224.0.0.0/4"): "a multicast group",
    IPv4Network("240.0.0.0/4"): "reserved",
}
_RESERVED_V6 = {
    IPv6Network("::1/128"): "this machine",
    IPv6Network("::/128"): "this machine",
    IPv6Network("fc00::/7"): "a private network",
    IPv6Network("fe80::/10"): "the local link",
    IPv6Network("fec0::/10"): "a private network",
    IPv6Network("ff00::/8"): "a multicast group",
    IPv6Network("2001::/23"): "reserved for protocols",
    IPv6Network("2001:db8::/32"): "reserved for documentation",
    IPv6Network("2002::/16"): "a 6to4 relay",
    IPv6Network("3fff::/20"): "reserved for documentation",
}
# Special use (IANA, RFC 6761, 7686, 8375), names that are never delegated (ICANN, 2018 and 2024), names of home networks,
# and public names of 127.0.0.1.
_PRIVATE_NAME = re.compile(
    r"(?:.*\.)?(?:local|localhost|localdomain|internal|home\.arpa|test|invalid|onion"
    r"|corp|home|mail|lan|intranet|private|localtest\.me|lvh\.me|vcap\.me|traefik\.me)"
)
"""Names that other networks cannot resolve, or that are addresses of their own machine."""

_NAMES_OF_ADDRESSES = ("nip.io", "sslip.io", "xip.io")
"""Services whose names contain the address that they resolve to, such as ``10.0.0.1.nip.io``."""

_GLOBAL_V6 = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)
"""Prefixes of the IPv4 address in the interface id of an ISATAP tunnel (RFC 5214, section 6.1)."""


class BadHostError(CovaltError):
    """A host or URL that is invalid or ambiguous."""

    code = "bad_host"


class Url(NamedTuple):
    """Parts of an http or https URL: scheme and host in lower case, ``rest`` starts with the path."""

    scheme: str
    host: str
    port: int | None
    rest: str


class WebOrigin(NamedTuple):
    """Origin of a URL; ``host`` is a normalized name or an IP address (IPv6 without brackets)."""

    scheme: str
    host: str
    port: int

    @property
    def shown_host(self) -> str:
        """The host, and the port unless it is the default port of the scheme."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == DEFAULT_PORTS[self.scheme] else f"{name}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.shown_host}"


def split_url(text: object) -> Url | None:
    """Return the parts of an http or https URL, or None if it is invalid or ambiguous.

    Ambiguous are a user name, a backslash (browsers read it as a slash) and control characters (browsers
    drop some of them).
    """
    # Another parser would find another host in it, and the check would be for the wrong one.
    if not isinstance(text, str) or re.search(_AMBIGUOUS, text):
        return None
    parts = re.fullmatch(_URL, text)
    if parts is None:
        return None
    port = int(parts["port"]) if parts["port"] else None
    return Url(parts["scheme"].lower(), parts["host"].lower(), port, parts["rest"])


def origin_of(url: str) -> tuple[WebOrigin, str]:
    """Return the origin of an http or https URL, and the rest that starts with the path.

    Raises:
        BadHostError: if the URL or its host is invalid.
    """
    parts = split_url(url)
    if parts is None:
        raise BadHostError(f"{display.shorten(url)!r} is not an http or https URL")
    port = DEFAULT_PORTS[parts.scheme] if parts.port is None else parts.port
    if not 0 < port <= _MAX_PORT:
        raise BadHostError(f"{port} is not a port")
    return WebOrigin(parts.scheme, normal_host(parts.host), port), parts.rest


def normal_host(text: str) -> str:
    """Return a normalized host: lower case, ASCII, no trailing dot, no brackets.

    Raises:
        BadHostError: if it is invalid, or an unusual form of an IPv4 address: 127.1, 0x7f000001, 010.0.0.1.
    """
    if text.startswith("["):
        address = _ip(text[1:-1])
        if not isinstance(address, IPv6Address):
            raise BadHostError(f"{display.shorten(text)!r} is not an IPv6 address")
        return ip_text(address)
    host = text.lower() if text.isascii() else _to_ascii(text)
    host = host.removesuffix(".")
    if not re.fullmatch(_NAME, host):
        raise BadHostError(f"{display.shorten(text)!r} is not a host")
    # The resolver of the system takes them for addresses, which the networks below would not have been compared
    # with.
    if re.fullmatch(_NUMBER, host) and (_ip(host) is None or str(_ip(host)) != host):
        raise BadHostError(
            f"{display.shorten(text)!r} is an ambiguous form of an IPv4 address",
            hint="write an IPv4 address as 192.0.2.1",
        )
    return host


def ip_text(ip: Ip) -> str:
    """Return a normalized IP address; an IPv4-mapped one as ``::ffff:102:304``, as in the URLs of browsers.

    Grants and token stores contain this form; ``str()`` returns ``::ffff:1.2.3.4`` since Python 3.13.
    """
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None:
        low = int(ip) & 0xFFFF_FFFF
        return f"::ffff:{low >> 16:x}:{low & 0xFFFF:x}"
    return str(ip)


def unmapped(ip: Ip) -> Ip:
    """Return the IPv4 address of an IPv4-mapped one (``::ffff:127.0.0.1``), and other addresses unchanged.

    Before Python 3.13, ``is_loopback`` and similar properties ignore the mapping.
    """
    return ip.ipv4_mapped or ip if isinstance(ip, IPv6Address) else ip


def is_local(host: str) -> bool:
    """Return whether a normalized host is ``localhost`` or an address that is not public."""
    ip = _ip(host)
    return _is_localhost(host) if ip is None else bool(_why_reserved(ip))


def is_public_name(host: str) -> bool:
    """Return whether a normalized host is an IP address, or a name that other networks can resolve."""
    if _ip(host) is not None:
        return True
    if "." not in host or _PRIVATE_NAME.fullmatch(host):
        return False
    service = next((name for name in _NAMES_OF_ADDRESSES if host.endswith(f".{name}")), None)
    if service is not None:
        return not _names_private_address(host.removesuffix(f".{service}"))
    # Services of such names are many, such as plex.direct, so the address counts in each domain.
    return not any(ip.is_private and int(ip) >> 24 for ip in _addresses_in(host))


def _addresses_in(labels: str) -> list[IPv4Address]:
    """Return the IPv4 addresses that a name has in decimal, such as ``10-0-0-1``, also those that overlap."""
    separated = re.findall(
        r"(?=(?:^|[.-])([0-9]{1,3})[.-]([0-9]{1,3})[.-]([0-9]{1,3})[.-]([0-9]{1,3})(?:[.-]|$))",
        labels,
    )
    addresses = (_ip(".".join(numbers)) for numbers in separated)
    return [ip for ip in addresses if isinstance(ip, IPv4Address)]


def _names_private_address(labels: str) -> bool:
    """Return whether the name in a service of names of addresses is that of an address that is not public."""
    addresses: list[Ip | None] = [*_addresses_in(labels)]
    addresses += [
        IPv4Address(int(digits, 16))
        for digits in re.findall(r"(?=(?:^|[.-])(?:0x)?([0-9a-f]{8})(?:[.-]|$))", labels)
    ]
    addresses += [_ip(label.replace("-", ":")) for label in labels.split(".")]
    return any(ip is not None and bool(_why_reserved(ip)) for ip in addresses)


def is_loopback(host: str) -> bool:
    """Return whether a normalized host or an IP address is this machine."""
    ip = _ip(host)
    return _is_localhost(host) if ip is None else unmapped(ip).is_loopback


class HostRule(NamedTuple):
    """A granted host: ``api.example.com``, ``*.example.com:8443``, ``http://localhost:5000``.

    The default port is that of the scheme.  The default scheme is https, and http for local hosts;
    ``http://`` allows both.  A network (``10.0.0.0/8``) permits requests to the addresses in it, and to
    granted names that resolve to them.
    """

    text: str
    scheme: str
    host: str
    port: int | None
    network: IPv4Network | IPv6Network | None = None

    @classmethod
    def parse(cls, text: str) -> HostRule:
        """Return the rule with this text.

        Raises:
            BadHostError: if the text is invalid.
        """
        if "/" in text.partition("://")[2]:
            raise BadHostError(
                f"{display.shorten(text)!r} is more than a host", hint="leave the path out"
            )
        if "/" in text and "://" not in text:
            try:
                network = ip_network(text)
            except ValueError:
                raise BadHostError(
                    f"{display.shorten(text)!r} is not a network", hint="write it as 10.0.0.0/8"
                ) from None
            return cls(text, "http", "", None, network)
        rule = re.fullmatch(_RULE, text)
        if rule is None or re.search(_AMBIGUOUS, text):
            raise BadHostError(
                f"{display.shorten(text)!r} is not a host",
                hint="write api.example.com or *.example.com",
            )
        wildcard = "*." if rule["host"].startswith("*.") else ""
        host = wildcard + normal_host(rule["host"].removeprefix(wildcard))
        plain = is_local(host.removeprefix("*."))
        scheme = (rule["scheme"] or ("http" if plain else "https")).lower()
        return cls(text, scheme, host, int(rule["port"]) if rule["port"] else None)

    @property
    def ports(self) -> tuple[int, ...]:
        """The granted ports: its own port, or the default ports of its schemes."""
        if self.port is not None:
            return (self.port,)
        schemes = ("http", "https") if self.scheme == "http" else ("https",)
        return tuple(DEFAULT_PORTS[scheme] for scheme in schemes)

    @property
    def shown(self) -> str:
        """The rule with its default ports, for messages."""
        if self.port is not None:
            return self.text
        word = "port" if len(self.ports) == 1 else "ports"
        return f"{self.text} ({word} {', '.join(map(str, self.ports))})"

    def covers(self, origin: WebOrigin) -> bool:
        """Return whether requests to an origin are granted, before its name is resolved."""
        # A secret that is sent over http can be read on the way.
        if origin.scheme == "http" and self.scheme != "http":
            return False
        port = DEFAULT_PORTS[origin.scheme] if self.port is None else self.port
        if origin.port != port:
            return False
        if self.network is not None:
            ip = _ip(origin.host)
            # Only literal addresses: the owner of a name decides where it leads.
            return ip is not None and unmapped(ip) in self.network
        if self.host.startswith("*."):
            # `*.1` would otherwise be a rule for addresses.
            return origin.host.endswith(self.host[1:]) and _ip(origin.host) is None
        return origin.host == self.host

    def is_within(self, rules: Iterable[HostRule]) -> bool:
        """Return whether each origin that this rule permits is permitted by one of ``rules``."""
        for rule in rules:
            if rule.text == self.text:
                return True
            # A wildcard or a network permits more than its names can show, so only the same one contains it.
            if self.network is not None or self.host.startswith("*."):
                continue
            schemes = ("http", "https") if self.scheme == "http" else ("https",)
            origins = [
                WebOrigin(
                    scheme, self.host, DEFAULT_PORTS[scheme] if self.port is None else self.port
                )
                for scheme in schemes
            ]
            if all(rule.covers(origin) for origin in origins):
                return True
        return False


class Reach(NamedTuple):
    """Permitted targets of requests: granted hosts or, with ``anywhere``, all public hosts over https."""

    rules: tuple[HostRule, ...] = ()
    anywhere: bool = False

    @classmethod
    def of(cls, *hosts: str) -> Reach:
        """Return the reach of granted hosts.

        Raises:
            BadHostError: if a host is invalid.
        """
        return cls(tuple(HostRule.parse(host) for host in hosts))

    def covers(self, origin: WebOrigin) -> bool:
        """Return whether requests to an origin are granted, before its name is resolved."""
        if self.anywhere and origin.scheme == "https":
            return True
        return any(rule.covers(origin) for rule in self.rules)

    def why_not(self, host: str, address: str) -> str:
        """Return why the granted ``host`` may not be reached at a resolved address; empty if it may.

        A name may resolve to a reserved address only if its network is granted too; ``localhost`` may
        resolve to this machine.
        """
        ip = _ip(address)
        if ip is None:
            return f"{display.shorten(address)!r} is not an IP address"
        # The name of a granted host may be made to lead into the network of the user (DNS rebinding).
        why = _why_reserved(ip)
        if not why:
            return ""
        plain = unmapped(ip)
        for rule in self.rules:
            if rule.network is not None and plain in rule.network:
                return ""
            literal = _ip(rule.host)
            if literal is not None and host == rule.host and unmapped(literal) == plain:
                return ""
        granted = any(_is_localhost(rule.host.removeprefix("*.")) for rule in self.rules)
        if granted and _is_localhost(host) and plain.is_loopback:
            return ""
        return (
            f"{host} resolves to {address}, which is {why}"
            if host != address
            else f"{host} is {why}"
        )


def resolve(host: str, port: int) -> list[str]:
    """Return the IP addresses of a host from the system's resolver, in the order to try them in.

    Raises:
        OSError: if the host has no address.
    """
    entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in entries))


def _why_reserved(ip: Ip) -> str:
    ip = unmapped(ip)
    if isinstance(ip, IPv4Address):
        return next((why for network, why in _RESERVED_V4.items() if ip in network), "")
    # The gateway sends it to the IPv4 address in it, which may be private.
    if ip in _NAT64:
        return _why_reserved(IPv4Address(int(ip) & 0xFFFF_FFFF))
    why = next((why for network, why in _RESERVED_V6.items() if ip in network), "")
    if not why and ip not in _GLOBAL_V6:
        return "reserved"
    # As with NAT64, the packet arrives at the IPv4 address in it.
    if not why and int(ip) >> 32 & 0xFFFF_FFFF in _ISATAP:
        return "a tunnel"
    return why


def _ip(text: str) -> Ip | None:
    if "%" in text:
        return None  # a zone has a meaning on this machine only
    try:
        return ip_address(text)
    except ValueError:
        return None


def _is_localhost(host: str) -> bool:
    return host == "localhost" or host.endswith(".localhost")


def _to_ascii(text: str) -> str:
    import idna  # noqa: PLC0415 - its tables are large, and few hosts need them

    try:
        return idna.encode(text, uts46=True, std3_rules=True).decode().lower()
    except idna.IDNAError:
        raise BadHostError(f"{display.shorten(text)!r} is not a host") from None
