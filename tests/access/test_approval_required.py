"""Which calls require approval: who asks for it, and which rules of the project apply."""

from typing import Any

import pytest

from covalt_git.access import confirmation
from covalt_git.json_values.canonical_json import NotJsonError
from covalt_git.models.project_config import ProjectConfig
from covalt_git.models.tool import Tool
from covalt_git.models.tool_properties import UNREAD_SCHEMA

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


def test_everyone_who_requires_approval_is_named() -> None:
    tool = make_tool(confirmation=("toolset", "decorator", "override", "project"))

    assert confirmation(make_config(), make_tool(), {}) == ()
    assert confirmation(make_config(), make_tool(confirmation_is_settled=True), {}) == ()
    assert confirmation(make_config(), tool, {}) == (
        "the toolset requires it",
        "its decorator requires it",
        "the toolset's override requires it",
        "this project's state requires it",
    )
    assert confirmation(make_config(rule("app-builder.**")), make_tool(), {}) == (
        "rule app-builder.** requires it",
    )


@pytest.mark.requirement("cjson-toolsets.tools.permissions")
def test_the_first_rule_that_applies_decides() -> None:
    config = make_config(
        rule("shop.**"),
        rule("**", args={"path": "docs/*"}),
        rule("app-builder.*", require=False),
        rule("**"),
    )

    assert confirmation(config, make_tool(), {"path": "docs/a.md"}) == (
        'rule ** with path: "docs/*" requires it',
    )
    assert confirmation(config, make_tool(), {"path": "src/a.py"}) == ()


@pytest.mark.parametrize("require", [True, False])
def test_a_path_is_compared_as_written_and_as_normalized(*, require: bool) -> None:
    """A rule that requires approval needs one spelling to match, a rule that waives it needs both."""
    config = make_config(rule(args={"path": "secret/*"}, require=require))
    tool = make_tool(confirmation=() if require else ("toolset",))

    for path in ("src/../secret/a", "secret/../src/a"):
        assert confirmation(config, tool, {"path": path})
    assert bool(confirmation(config, tool, {"path": "secret/a"})) is require


@pytest.mark.parametrize(
    ("path", "value", "holds"),
    [
        ("path", "src/app.py", True),
        ("path", "src/*", True),
        ("path", "*", True),
        ("force", True, True),
        ("count", 3, True),
        ("count", 3.0, True),
        ("ratio", 0.5, True),
        ("none", None, True),
        ("headers.host", "*.com", True),
        ("headers", {"host": "example.com"}, True),
        ("files.1.name", ".env*", True),
        ("files.0", {"name": "a.txt"}, True),
        ("missing", "*", False),
        ("missing", None, False),
        ("headers.port", "*", False),
        ("path.0", "s", False),
        ("files.2.name", "*", False),
        ("files.-1.name", "*", False),
        ("files.²", "*", False),
        ("files." + "9" * 5000, "*", False),
        ("count", "3", True),
        ("count", "*", True),
        ("force", 1, False),
        ("path", "SRC/*", False),
        ("path", "src/[a]pp.py", False),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_condition_on_an_argument(path: str, value: object, *, holds: bool) -> None:
    assert bool(confirmation(make_config(rule(args={path: value})), make_tool(), ARGS)) is holds


@pytest.mark.parametrize(
    ("value", "sent"),
    [(1000, "1000"), ("1000", 1000), ("42*", 4211), (True, "true"), ("true", True), (None, "null")],
)
def test_a_value_in_another_form_still_requires_approval_and_waives_none(
    value: object, sent: object
) -> None:
    requires = make_config(rule(args={"amount": value}))
    waives = make_config(rule(args={"amount": value}, require=False))
    tool = make_tool(confirmation=("toolset",))

    assert confirmation(requires, make_tool(), {"amount": sent})
    assert confirmation(waives, tool, {"amount": sent})


def test_a_parameter_of_an_unknown_type_may_have_any_value_under_a_name() -> None:
    schema = {"type": "object", "properties": {"target": {UNREAD_SCHEMA: True}}}
    tool = make_tool(input_schema=schema)

    config = make_config(rule(args={"target.p": "*.env"}))

    assert confirmation(config, tool, {"target": {"path": "prod.env"}})
    # What the type makes of the text is unknown too.
    assert confirmation(config, tool, {"target": {"p": "notes.txt"}})


def test_every_part_of_a_condition_must_hold() -> None:
    config = make_config(
        rule(args={"path": "src/*", "force": True}, annotations={"destructive": True})
    )
    destructive = make_tool(annotations={"destructive": True, "read_only": False})

    assert confirmation(config, destructive, ARGS)
    assert not confirmation(config, destructive, ARGS | {"force": False})
    assert not confirmation(config, make_tool(annotations={"read_only": False}), ARGS)


def test_every_annotation_of_a_condition_must_equal_the_tools() -> None:
    config = make_config(rule(annotations={"read_only": False, "open_world": True}))

    assert confirmation(config, make_tool(annotations={"read_only": False, "open_world": True}), {})
    assert not confirmation(config, make_tool(annotations={"read_only": False}), {})
    assert not confirmation(config, make_tool(), {})
    assert confirmation(make_config(rule(annotations={})), make_tool(), {})


def test_annotations_that_the_project_does_not_state_can_require_approval_and_not_waive_it() -> (
    None
):
    """They are the words of an author or a server about itself."""
    tool = make_tool(annotations={"read_only": True}, confirmation=("toolset",))
    waives = make_config(rule(annotations={"read_only": True}, require=False))
    requires = make_config(rule(annotations={"read_only": True}))

    assert confirmation(waives, tool, {}) == ("the toolset requires it",)
    assert confirmation(waives, tool.model_copy(update={"annotations_are_own": True}), {}) == ()
    assert confirmation(requires, tool, {}) == ("rule ** with read_only: true requires it",)


def test_an_argument_that_is_not_json_is_an_error() -> None:
    with pytest.raises(NotJsonError):
        confirmation(make_config(rule(args={"count": 1})), make_tool(), {"count": 2**60})
