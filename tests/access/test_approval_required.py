"""Confirmation: who asks for a person before a call, and who may say that nobody is asked."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.access import confirmation
from covalt_git.json_values.canonical_json import NotJsonError
from covalt_git.models.project_config import ProjectConfig
from covalt_git.models.tool import Tool

ARGS = {
    "path": "src/app.py",
    "force": True,
    "count": 3,
    "ratio": 0.5,
    "none": None,
    "headers": {"host": "example.com"},
    "files": [{"name": "a.txt"}, {"name": ".env"}],
}


def make_tool(**changes: Any) -> Tool:
    fields = {
        "tool_id": "app-builder:write_file",
        "toolset_id": "app-builder",
        "name": "Write File",
        "input_schema": {},
    }
    return Tool.model_validate(fields | changes)


def make_config(*rules: dict[str, Any]) -> ProjectConfig:
    return ProjectConfig.model_validate({"version": 1, "approvals": rules})


def rule(pattern: str = "**", *, require: bool = True, **when: Any) -> dict[str, Any]:
    return {"pattern": pattern, "require": require, "when": when}


def test_nobody_is_asked_where_nobody_asks() -> None:
    assert confirmation(make_config(), make_tool(), {}) == ()
    assert confirmation(make_config(), make_tool(confirmation_is_settled=True), {}) == ()


def test_everyone_who_asks_is_named() -> None:
    tool = make_tool(confirmation=("toolset", "decorator", "override", "project"))

    assert confirmation(make_config(), tool, {}) == (
        "the toolset asks",
        "its decorator asks",
        "the toolset's override asks",
        "this project's state asks",
    )


def test_rule_asks_where_the_tool_does_not() -> None:
    assert confirmation(make_config(rule("app-builder.**")), make_tool(), {}) == (
        "rule app-builder.** asks",
    )


def test_rule_of_the_project_may_lower() -> None:
    config = make_config(rule("app-builder.write_*", require=False))

    assert confirmation(config, make_tool(confirmation=("toolset", "decorator")), {}) == ()


def test_first_rule_that_applies_decides() -> None:
    rules = [
        rule("shop.**"),
        rule("**", args={"path": "docs/*"}),
        rule("app-builder.*", require=False),
        rule("**"),
    ]

    assert confirmation(make_config(*rules), make_tool(), {"path": "docs/a.md"}) == (
        "rule ** asks",
    )
    assert confirmation(make_config(*rules), make_tool(), {"path": "src/a.py"}) == ()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param("path", "src/app.py", id="text"),
        pytest.param("path", "src/*", id="pattern"),
        pytest.param("path", "*", id="star-is-any-text"),
        pytest.param("force", True, id="yes"),
        pytest.param("count", 3, id="number"),
        pytest.param("count", 3.0, id="equal-number-of-another-type"),
        pytest.param("ratio", 0.5, id="fraction"),
        pytest.param("none", None, id="null"),
        pytest.param("headers.host", "*.com", id="nested"),
        pytest.param("headers", {"host": "example.com"}, id="whole-object"),
        pytest.param("files.1.name", ".env*", id="list-index"),
        pytest.param("files.0", {"name": "a.txt"}, id="list-item"),
    ],
)
def test_condition_holds_for_arguments_like_its_value(path: str, value: object) -> None:
    assert confirmation(make_config(rule(args={path: value})), make_tool(), ARGS)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param("missing", "*", id="missing"),
        pytest.param("missing", None, id="missing-is-not-null"),
        pytest.param("headers.port", "*", id="missing-within"),
        pytest.param("path.0", "s", id="a-text-has-no-parts"),
        pytest.param("files.2.name", "*", id="beyond-the-list"),
        pytest.param("files.-1.name", "*", id="lists-count-from-the-front"),
        pytest.param("files.²", "*", id="not-an-index"),
        pytest.param("files." + "9" * 5000, "*", id="far-too-long-an-index"),
        pytest.param("count", "3", id="text-is-no-number"),
        pytest.param("count", "*", id="star-is-any-text-only"),
        pytest.param("force", 1, id="yes-is-not-one"),
        pytest.param("path", "SRC/*", id="case-matters"),
        pytest.param("path", "src/[a]pp.py", id="only-the-star-is-special"),
    ],
)
def test_condition_does_not_hold_for_other_arguments(path: str, value: object) -> None:
    assert confirmation(make_config(rule(args={path: value})), make_tool(), ARGS) == ()


def test_every_part_of_a_condition_must_hold() -> None:
    config = make_config(
        rule(args={"path": "src/*", "force": True}, annotations={"destructive": True})
    )
    destructive = make_tool(annotations={"destructive": True, "read_only": False})

    assert confirmation(config, destructive, ARGS)
    assert not confirmation(config, destructive, ARGS | {"force": False})
    assert not confirmation(config, make_tool(annotations={"read_only": False}), ARGS)


def test_every_annotation_given_must_equal_the_tools() -> None:
    config = make_config(rule(annotations={"read_only": False, "open_world": True}))

    assert confirmation(config, make_tool(annotations={"read_only": False, "open_world": True}), {})
    assert not confirmation(config, make_tool(annotations={"read_only": False}), {})
    assert not confirmation(config, make_tool(), {})


def test_condition_on_no_annotation_holds_always() -> None:
    assert confirmation(make_config(rule(annotations={})), make_tool(), {})


def test_argument_that_json_cannot_hold_is_an_error_and_not_an_answer() -> None:
    config = make_config(rule(args={"count": 1}, require=True))

    with pytest.raises(NotJsonError):
        confirmation(config, make_tool(), {"count": 2**60})


ANNOTATIONS = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(
        ["read_only", "destructive", "idempotent", "open_world"], st.booleans() | st.none()
    ),
)
SOURCES = st.lists(
    st.sampled_from(["toolset", "decorator", "override", "project"]), min_size=1, unique=True
)


@given(annotations=ANNOTATIONS, sources=SOURCES)
@settings(deadline=None)
def test_what_a_tool_says_about_itself_never_lowers(
    annotations: dict[str, bool | None], sources: list[str]
) -> None:
    tool = make_tool(annotations=annotations, confirmation=sources)

    assert len(confirmation(make_config(), tool, {})) == len(sources)
