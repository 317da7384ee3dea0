"""Names: ids, the one tool id, patterns over tools, and branches as git itself judges them."""

import re
import subprocess
import time
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.names import (
    BadNameError,
    ToolId,
    beginning,
    check_branch,
    check_id,
    id_key,
    is_id,
    is_pattern,
    matches,
    matches_text,
    new_id,
    suggest_id,
)
from tests.examples import examples
from tests.tables import tables

TABLES = tables(__file__)


@pytest.mark.parametrize(
    "text", ["a", "app-builder", "a1", "my_tools", "a-b_c-1", "x" * 64, "state", "a-1"]
)
def test_legal_ids(text: str) -> None:
    assert is_id(text)
    assert check_id(text, "toolset") == text
    assert suggest_id(text).replace("-", "_") == id_key(text)


@pytest.mark.parametrize(
    "text",
    ["", "1a", "A", "a-", "-a", "a--b", "a__b", "a.b", "a/b", "..", "a b", "ä", "a\n", "x" * 65],
)
def test_illegal_ids(text: str) -> None:
    assert not is_id(text)
    with pytest.raises(BadNameError, match="cannot be a toolset id"):
        check_id(text, "toolset")


@pytest.mark.parametrize(
    ("text", "near"),
    [("App Builder", "app-builder"), ("my__tools", "my-tools"), ("3d-print", "d-print"), ("…", "")],
)
def test_id_near_an_illegal_one_is_suggested(text: str, near: str) -> None:
    assert suggest_id(text) == near
    assert id_key("my-tools") == id_key("my_tools")


@given(text=st.text())
def test_suggested_id_is_legal(text: str) -> None:
    assert suggest_id(text) == "" or is_id(suggest_id(text))


@pytest.mark.parametrize(
    "text", ["", "a", "a:", ":b", "a:b:c", "A:b", "a.b:c", "a:b..c", "a: b", "a:" + "x" * 64, "a:ä"]
)
def test_other_texts_are_not_tool_ids(text: str) -> None:
    with pytest.raises(BadNameError, match="is not a tool id"):
        ToolId.parse(text)


@given(
    namespace=st.from_regex(r"[a-z][a-z0-9]{0,8}([-_][a-z0-9]{1,5}){0,3}", fullmatch=True),
    name=st.from_regex(r"[A-Za-z0-9_-]{1,9}(\.[A-Za-z0-9_-]{1,9}){0,3}", fullmatch=True),
)
def test_tool_id_comes_back_from_both_spellings(namespace: str, name: str) -> None:
    tool_id = ToolId(namespace, name)

    assert (str(tool_id), tool_id.path) == (f"{namespace}:{name}", f"{namespace}.{name}")
    assert ToolId.parse(str(tool_id)) == ToolId.parse(tool_id.path) == tool_id
    assert re.fullmatch(r"[A-Za-z0-9_.-]{1,128}", tool_id.path)


@pytest.mark.parametrize(
    "text", ["*", "**", "a.*", "a.**", "*.read_*", "a.b", "**.x", "a-b.c_d.*e*"]
)
def test_patterns(text: str) -> None:
    assert is_pattern(text)


@pytest.mark.parametrize("text", ["", "a:b", "a..b", "a.b**", "***", "a b", "a.[x]", "a.?"])
def test_texts_that_are_not_patterns(text: str) -> None:
    assert not is_pattern(text)


@pytest.mark.requirement(
    "toolshed-policy.segment", "toolshed-policy.depth", "toolshed-policy.everything"
)
@pytest.mark.parametrize(("pattern", "path", "selected"), TABLES["pattern_selects_paths"])
def test_pattern_selects_paths(pattern: str, path: str, selected: bool) -> None:  # noqa: FBT001 - a column of the table
    assert matches(pattern, path) is selected


def reference_text(pattern: str, text: str) -> bool:
    """Match as the definition reads, with no thought of speed."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return reference_text(pattern[1:], text) or (
            bool(text) and reference_text(pattern, text[1:])
        )
    return text[:1] == pattern[0] and reference_text(pattern[1:], text[1:])


def reference_path(pattern: list[str], path: list[str]) -> bool:
    """Match as the definition reads, with no thought of speed."""
    if not pattern:
        return not path
    if pattern[0] == "**":
        return any(reference_path(pattern[1:], path[cut:]) for cut in range(len(path) + 1))
    return (
        bool(path) and reference_text(pattern[0], path[0]) and reference_path(pattern[1:], path[1:])
    )


SEGMENTS = st.text("ab", min_size=1, max_size=4)
PATTERN_SEGMENTS = st.just("**") | st.text("ab*", min_size=1, max_size=5).filter(
    lambda text: "**" not in text
)


@given(
    pattern=st.lists(PATTERN_SEGMENTS, min_size=1, max_size=5),
    path=st.lists(SEGMENTS, min_size=1, max_size=5),
)
@settings(max_examples=examples(250))
def test_matching_equals_its_definition(pattern: list[str], path: list[str]) -> None:
    expected = pattern == ["*"] or reference_path(pattern, path)
    text = ".".join(path)

    assert matches(".".join(pattern), text) == expected
    if expected:
        assert text.startswith(beginning(".".join(pattern)))
    assert matches(text, text)
    assert beginning(text) == text


@given(pattern=st.text("ab*", max_size=8), text=st.text("ab", max_size=8), other=st.text())
@settings(max_examples=examples(200))
def test_matching_a_text_equals_its_definition(pattern: str, text: str, other: str) -> None:
    plain = other.replace("*", "")

    assert matches_text(pattern, text) == reference_text(pattern, text)
    assert matches_text(plain, plain)
    assert not matches_text(plain, f"{plain}x")
    assert matches_text("*", other)


def test_hostile_pattern_is_matched_in_linear_time() -> None:
    assert not matches("**.a." * 50 + "b", "a." * 60 + "a")
    assert not matches_text("*a" * 5_000 + "b", "a" * 20_000)


def test_new_id_is_a_version_7_uuid_of_this_moment() -> None:
    before = time.time_ns() // 1_000_000
    made = uuid.UUID(new_id())
    after = time.time_ns() // 1_000_000

    assert (made.version, made.variant) == (7, uuid.RFC_4122)
    assert before <= made.int >> 80 <= after


def test_new_ids_differ_and_sort_by_the_time_they_hold() -> None:
    made = [new_id() for _ in range(10_000)]
    moments = [text[:18] for text in made]

    assert len(set(made)) == len(made)
    assert moments == sorted(moments)


@pytest.mark.parametrize(
    "name",
    ["main", "retry-2", "try/blue", "v1.0", "A_b", "1", "x" * 128, "ahead", "refs-2", "over_head"],
)
def test_legal_branches(name: str) -> None:
    assert check_branch(name) == name


# fmt: off
ILLEGAL_BRANCHES = (
    "", "HEAD", "head", "FETCH_HEAD", "ORIG_HEAD", "refs", "refs/covalt/chat", "Refs/heads/main", "-x",
    ".x", "a..b", "a/", "/a", "a//b", "a/.b", "a.lock", "a.lock/b", "a.", "a b", "a~1", "a^", "a:b", "a?",
    "a*", "a[", "a\\b", "@", "a@{1}", "a\n", "ä",
)
# fmt: on


@pytest.mark.parametrize("name", [*ILLEGAL_BRANCHES, "x" * 129])
def test_illegal_branches(name: str) -> None:
    with pytest.raises(BadNameError, match="cannot be a branch name"):
        check_branch(name)


@given(name=st.text("aZ0._-/@~^:\\ lock", max_size=12) | st.text(max_size=6))
@settings(max_examples=examples(60))
def test_branch_that_we_allow_git_allows(name: str) -> None:
    try:
        check_branch(name)
    except BadNameError:
        return
    command = ["git", "check-ref-format", "--branch", name]

    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
