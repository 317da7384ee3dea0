"""Which patterns lie within which others: texts, tool paths and hosts.

A pattern stands for all the texts that it selects.  One lies within another if every text of the
first is one of the second, which is decided by letting the wider one match the narrower one with
each of its stars replaced by characters that nothing but a star takes.
"""

from __future__ import annotations

import ipaddress
from itertools import product
from typing import TYPE_CHECKING

from covalt_git.hosts import BadHostError, HostRule
from covalt_git.names import matches_segments, matches_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_FRESH = "\ue000"
"""A character that no name holds, so that only a star takes it."""

_MAX_STARS = 3
"""How many ``**`` a pattern may have to be decided about: each multiplies the work."""

_TOOL_PATH = 2
"""Segments that every tool path has at least: its toolset's and its own."""


def text_within(narrow: str, wide: str) -> bool:
    """Tell whether each text that ``narrow`` matches is one that ``wide`` matches."""
    return narrow == wide or (
        _FRESH not in wide and matches_text(wide, narrow.replace("*", _FRESH))
    )


def tools_within(narrow: str, wide: str) -> bool:
    """Tell whether each tool path that ``narrow`` selects is one that ``wide`` selects."""
    one, other = _shortened(narrow.split(".")), _shortened(wide.split("."))
    if other in (one, ["**"]):
        return True
    if one.count("**") > _MAX_STARS:
        return False
    return all(
        matches_segments(other, segments)
        for segments in _instances(one, len(other) + 1)
        if len(segments) >= _TOOL_PATH
    )


def _shortened(pattern: Sequence[str]) -> list[str]:
    """Return a pattern with one ``**`` where several follow each other, which select the same."""
    return [
        segment
        for at, segment in enumerate(pattern)
        if segment != "**" or at == 0 or pattern[at - 1] != "**"
    ]


def _instances(pattern: Sequence[str], most: int) -> Iterator[list[str]]:
    """Yield the pattern with each ``**`` as 0 to ``most`` segments that nothing but a star takes.

    With more segments than the other pattern has, one of its ``**`` takes at least one of them, and
    then takes any number.
    """
    stars = [at for at, segment in enumerate(pattern) if segment == "**"]
    for counts in product(range(most + 1), repeat=len(stars)):
        left = dict(zip(stars, counts, strict=True))
        yield [
            text
            for at, segment in enumerate(pattern)
            for text in ([_FRESH] * left[at] if at in left else [segment.replace("*", _FRESH)])
        ]


def host_within(narrow: str, wide: str) -> bool:
    """Tell whether every request that the host rule ``narrow`` covers is covered by ``wide``."""
    try:
        one, other = HostRule.parse(narrow), HostRule.parse(wide)
    except BadHostError:
        return narrow == wide
    if one.port != other.port or (one.scheme == "http" and other.scheme != "http"):
        return False
    if other.network is not None:
        return _network_within(one, other.network)
    if one.network is not None:
        return False
    if other.host.startswith("*."):
        inner = one.host.removeprefix("*")
        return inner.endswith(other.host[1:]) and not _is_address(one.host)
    return one.host == other.host


def _network_within(rule: HostRule, wide: ipaddress.IPv4Network | ipaddress.IPv6Network) -> bool:
    try:
        narrow = rule.network or ipaddress.ip_network(rule.host)
    except ValueError:
        return False
    if isinstance(narrow, ipaddress.IPv4Network):
        return isinstance(wide, ipaddress.IPv4Network) and narrow.subnet_of(wide)
    return isinstance(wide, ipaddress.IPv6Network) and narrow.subnet_of(wide)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
