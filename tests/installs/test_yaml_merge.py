"""Merging YAML key by key: the result has the changes of both sides and our layout."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalt_git import yaml_text
from covalt_git.installs.yaml_merge import merge_yaml

BASE = """\
# my tools
id: demo
name: Demo
version: "1.0"

tools:
  # the first
  - id: a
    entrypoint: tools.a:a
    limits:
      timeout_s: 30
  - id: b
    entrypoint: tools.a:b
secrets: [A]
"""
NAMES = ("yours", "1.1")


def merged(ours: str, theirs: str, base: str = BASE) -> tuple[str, bool]:
    found = merge_yaml(base.encode(), ours.encode(), theirs.encode(), NAMES)
    assert found is not None
    return found.content.decode(), found.clean


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        # Neighbouring lines, which line by line would be a conflict.
        ([("name: Demo", "name: Ours  # a note")], [('"1.0"', '"1.1"')]),
        # Two parts of one tool, one of them new.
        (
            [("timeout_s: 30", "timeout_s: 60")],
            [("    limits:\n", "    description: one\n    limits:\n      memory_mb: 3\n")],
        ),
        # Tools that either side adds at the same place, and a removed tool.
        (
            [("secrets: [A]\n", "  - id: mine\n    entrypoint: tools.m:m\nsecrets: [A]\n")],
            [("  - id: b\n    entrypoint: tools.a:b\n", "  - id: c\n    entrypoint: tools.c:c\n")],
        ),
        # Comments belong to the entry below them.
        ([("# the first", "# the very first")], [("secrets: [A]", "# of theirs\nsecrets: [B]")]),
    ],
)
def test_the_changes_of_both_sides_are_merged(
    ours: list[tuple[str, str]], theirs: list[tuple[str, str]]
) -> None:
    text, clean = merged(edited(BASE, ours), edited(BASE, theirs))

    assert (text, clean) == (edited(BASE, ours + theirs), True)


def edited(text: str, edits: list[tuple[str, str]]) -> str:
    for old, new in edits:
        text = text.replace(old, new)
    return text


def test_a_conflict_holds_the_key_alone_and_the_rest_is_merged() -> None:
    text, clean = merged(
        edited(BASE, [("timeout_s: 30", "timeout_s: 60"), ("name: Demo", "name: Ours")]),
        edited(BASE, [("timeout_s: 30", "timeout_s: 5"), ('"1.0"', '"1.1"')]),
    )

    assert not clean
    marks = "<<<<<<< yours\n      timeout_s: 60\n=======\n      timeout_s: 5\n>>>>>>> 1.1\n"
    wanted = edited(BASE, [("name: Demo", "name: Ours"), ('"1.0"', '"1.1"')])
    assert text == wanted.replace("      timeout_s: 30\n", marks)


# A law: what is clean says what merging the values says, whatever the texts look like.

NAMES_OF_KEYS = ["name", "version", "limits", "text"]
scalars = st.integers(0, 3) | st.sampled_from(["x", "y: z", "# no comment", "two\nlines\n", ""])
mappings = st.dictionaries(
    st.sampled_from(NAMES_OF_KEYS),
    scalars | st.dictionaries(st.sampled_from(["a", "b"]), scalars, min_size=1),
    min_size=1,
)
items = st.dictionaries(st.sampled_from(["p", "q", "r"]), mappings, min_size=1).map(
    lambda named: [{"id": name} | value for name, value in named.items()]
)
documents = st.fixed_dictionaries(
    {"id": st.just("demo")}, optional={"name": scalars, "tools": items, "defaults": mappings}
)


@given(documents, documents, documents)
def test_a_merge_without_conflict_equals_the_merge_of_the_values(
    base: Any, ours: Any, theirs: Any
) -> None:
    was, mine, other = (yaml_text.dump(one, "").encode() for one in (base, ours, theirs))
    found = merge_yaml(was, mine, other, NAMES)
    expected = merged_values(base, ours, theirs)
    if found is None:
        return
    if found.clean:
        said = yaml_text.load(found.content, "").data
        assert as_mapping(said) == as_mapping(expected)
    else:
        assert expected is CONFLICT or CONFLICT in flat(expected)


@given(documents, documents)
def test_the_changes_of_one_side_alone_are_taken_as_they_are(base: Any, ours: Any) -> None:
    before, mine = (yaml_text.dump(one, "").encode() for one in (base, ours))
    for one, other in ((mine, before), (before, mine), (mine, mine)):
        found = merge_yaml(before, one, other, NAMES)
        if found is not None:
            assert found.clean
            assert as_mapping(yaml_text.load(found.content, "").data) == as_mapping(ours)


CONFLICT = "\0conflict"
GONE = "\0gone"


def merged_values(base: Any, ours: Any, theirs: Any) -> Any:
    """Merge values, not texts, by the rules of the module's docstring."""
    base, ours, theirs = (as_mapping(one) for one in (base, ours, theirs))
    if ours == base:
        return copy.deepcopy(theirs)
    if theirs in (base, ours):
        return copy.deepcopy(ours)
    if not (isinstance(ours, dict) and isinstance(theirs, dict)):
        return CONFLICT
    was = base if isinstance(base, dict) else {}
    parts = {
        key: merged_values(was.get(key, GONE), ours.get(key, GONE), theirs.get(key, GONE))
        for key in {**ours, **theirs}
    }
    return {key: value for key, value in parts.items() if value != GONE}


def as_mapping(value: Any) -> Any:
    """Return lists of what has an id as mappings: order says nothing here."""
    if isinstance(value, list):
        return {item["id"]: as_mapping(item) for item in value}
    if isinstance(value, dict):
        return {key: as_mapping(inner) for key, inner in value.items()}
    return value


def flat(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for inner in value.values() for leaf in flat(inner)]
    return [value]
