"""A pattern lies within another exactly if the other matches everything that it matches."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalt_git.authority.pattern_subset import host_within, tools_within
from covalt_git.hosts import HostRule, WebOrigin
from covalt_git.names import matches

PATHS = [
    ".".join(one) for size in range(2, 5) for one in product(["a", "b", "ab", "c"], repeat=size)
]
HOSTS = [
    *("api.example.com", "*.example.com", "*.api.example.com", "http://api.example.com"),
    *("api.example.com:8443", "*.example.com:8443", "example.com", "10.0.0.0/8", "10.1.0.0/16"),
    *("10.1.2.3", "localhost", "http://localhost:5000"),
]
NAMES = ("api.example.com", "x.api.example.com", "example.com", "10.1.2.3", "10.9.9.9", "localhost")
ORIGINS = [WebOrigin(*one) for one in product(("http", "https"), NAMES, (80, 443, 5000, 8443))]

segments = st.sampled_from(["a", "b", "ab", "*", "a*", "*b", "**"])
patterns = st.lists(segments, min_size=1, max_size=4).map(".".join)


@given(patterns, patterns)
def test_a_tool_pattern_within_another_matches_no_tool_beyond_it(narrow: str, wide: str) -> None:
    brute = all(matches(wide, path) for path in PATHS if matches(narrow, path))

    assert not tools_within(narrow, wide) or brute
    assert tools_within(narrow, narrow)
    assert tools_within(narrow, "**")


@pytest.mark.parametrize(
    ("narrow", "wide", "within"),
    [
        ("**", "*.**", True),  # every tool path has two segments
        ("**", "*", True),
        ("*", "**", True),
        ("*", "a.*", False),
        ("a.b.c", "*", True),
        ("a.**", "a.*", False),
        ("a.*", "a.**", True),
        ("**.b", "**", True),
        ("a.b*", "a.*", True),
        ("a.*", "a.b*", False),
        ("a.**.b", "a.**", True),
    ],
)
def test_tool_patterns(narrow: str, wide: str, *, within: bool) -> None:
    assert tools_within(narrow, wide) is within


def test_a_host_within_another_covers_no_origin_beyond_it() -> None:
    for narrow, wide in product(HOSTS, HOSTS):
        one, other = HostRule.parse(narrow), HostRule.parse(wide)
        brute = all(other.covers(origin) for origin in ORIGINS if one.covers(origin))
        assert not host_within(narrow, wide) or brute, (narrow, wide)
        assert host_within(narrow, narrow)
