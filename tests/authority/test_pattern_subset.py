"""A pattern lies within another exactly if each text of the first is one of the second."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalt_git.authority.pattern_subset import host_within, text_within, tools_within
from covalt_git.hosts import HostRule, Origin
from covalt_git.names import matches, matches_text

TEXTS = ["".join(one) for size in range(6) for one in product("abc", repeat=size)]
PATHS = [
    ".".join(one) for size in range(2, 5) for one in product(["a", "b", "ab", "c"], repeat=size)
]

segments = st.sampled_from(["a", "b", "ab", "*", "a*", "*b", "**"])
patterns = st.lists(segments, min_size=1, max_size=4).map(".".join).filter(lambda one: one != "*")


def test_a_private_character_in_a_pattern_stands_for_no_star() -> None:
    assert not text_within("*", "\ue000")
    assert text_within("\ue000", "\ue000")


@given(st.text("ab*", max_size=4), st.text("ab*", max_size=4))
def test_a_text_pattern_is_within_another_if_all_its_texts_are(narrow: str, wide: str) -> None:
    brute = all(matches_text(wide, text) for text in TEXTS if matches_text(narrow, text))

    assert text_within(narrow, wide) == brute


@given(patterns, patterns)
def test_a_tool_pattern_within_another_selects_no_tool_beyond_it(narrow: str, wide: str) -> None:
    brute = all(matches(wide, path) for path in PATHS if matches(narrow, path))

    assert not tools_within(narrow, wide) or brute


@given(patterns)
def test_every_tool_pattern_is_within_itself_and_everything(pattern: str) -> None:
    assert tools_within(pattern, pattern)
    assert tools_within(pattern, "**")


@pytest.mark.parametrize(
    ("narrow", "wide", "within"),
    [
        ("**", "*.**", True),  # every tool path has two segments
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


HOSTS = [
    "api.example.com",
    "*.example.com",
    "*.api.example.com",
    "http://api.example.com",
    "api.example.com:8443",
    "*.example.com:8443",
    "example.com",
    "10.0.0.0/8",
    "10.1.0.0/16",
    "10.1.2.3",
    "localhost",
    "http://localhost:5000",
]
ORIGINS = [
    Origin(scheme, host, port)
    for scheme in ("http", "https")
    for host in ("api.example.com", "x.api.example.com", "example.com", "10.1.2.3", "10.9.9.9", "localhost")
    for port in (80, 443, 5000, 8443)
]  # fmt: skip


@given(st.sampled_from(HOSTS), st.sampled_from(HOSTS))
def test_a_host_within_another_covers_no_origin_beyond_it(narrow: str, wide: str) -> None:
    one, other = HostRule.parse(narrow), HostRule.parse(wide)
    brute = all(other.covers(origin) for origin in ORIGINS if one.covers(origin))

    assert not host_within(narrow, wide) or brute
    assert host_within(narrow, narrow)
