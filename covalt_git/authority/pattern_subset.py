"""Subset tests for patterns of tool paths and of hosts.

A pattern is within another if the other matches every text that it matches.  To decide this, each star
of the narrower pattern is replaced by a character that only a star can match, and the wider pattern is
matched against the result.
"""

from __future__ import annotations

import ipaddress
from itertools import product
from typing import TYPE_CHECKING

from covalt_git.hosts import BadHostError, HostRule
from covalt_git.names import matches_segments

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_FRESH = "\ue000"
"""A private-use character: no name contains it, so only a star matches it."""

_MAX_STARS = 3
"""Maximum number of ``**`` in a pattern that is decided; each multiplies the work."""

_TOOL_PATH = 2
"""Minimum number of segments of a tool path: the toolset's and the tool's."""


def tools_within(narrow: str, wide: str) -> bool:
    """Return whether ``wide`` matches each tool path that ``narrow`` matches."""
    inner, outer = _shortened(narrow.split(".")), _shortened(wide.split("."))
    if outer in (inner, ["**"]):
        return True
    # Undecided counts as wider, so a pattern that costs too much time hides nothing.
    if inner.count("**") > _MAX_STARS:
        return False
    return all(
        matches_segments(outer, segments)
        for segments in _instances(inner, len(outer) + 1)
        if len(segments) >= _TOOL_PATH
    )


def _shortened(pattern: Sequence[str]) -> list[str]:
    """Return an equivalent pattern without repeated ``**``; ``*`` alone is ``**``."""
    if list(pattern) == ["*"]:
        return ["**"]
    return [
        segment
        for at, segment in enumerate(pattern)
        if segment != "**" or at == 0 or pattern[at - 1] != "**"
    ]


def _instances(pattern: Sequence[str], most: int) -> Iterator[list[str]]:
    """Yield the pattern with each ``**`` replaced by 0 to ``most`` segments that only a star matches.

    If ``most`` exceeds the number of segments of the other pattern, one of its ``**`` has to match one of
    these segments, and then matches any number of them.
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
    """Return whether the host rule ``wide`` covers every request that ``narrow`` covers."""
    try:
        inner_rule, outer_rule = HostRule.parse(narrow), HostRule.parse(wide)
    except BadHostError:
        # A rule that cannot be parsed covers nothing but itself.
        return narrow == wide
    if inner_rule.port != outer_rule.port or (
        inner_rule.scheme == "http" and outer_rule.scheme != "http"
    ):
        return False
    if outer_rule.network is not None:
        return _network_within(inner_rule, outer_rule.network)
    if inner_rule.network is not None:
        return False
    if outer_rule.host.startswith("*."):
        inner = inner_rule.host.removeprefix("*")
        # A wildcard covers names only: `*.1` is no rule for 10.0.0.1.
        return inner.endswith(outer_rule.host[1:]) and not _is_address(inner_rule.host)
    return inner_rule.host == outer_rule.host


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
