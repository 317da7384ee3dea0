"""What a role may see, call and approve, and the reason that a decision gives."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from covalt_git.access import Action, Decision, Principal, UnknownRoleError, decide, sees_everything
from covalt_git.models.project_config import ProjectConfig, RoleConfig
from covalt_git.models.tool import Tool
from tests.examples import examples

ACTIONS: tuple[Action, ...] = ("see", "call", "approve")
ANA = Principal("ana")
NOT_ALLOWED = "no allow pattern of role 'dev' matches app-builder.write_file"


def make_tool(tool_id: str = "app-builder:write_file", **changes: Any) -> Tool:
    namespace, _, name = tool_id.partition(":")
    return Tool(tool_id=tool_id, toolset_id=namespace, name=name, input_schema={}, **changes)


def make_config(default_role: str | None = None, **roles: Any) -> ProjectConfig:
    return ProjectConfig.model_validate(
        {"version": 1, "default_role": default_role, "roles": roles}
    )


def ask(role: dict[str, Any], action: Action = "call", tool: Tool | None = None) -> Decision:
    return decide(make_config("dev", dev=role), ANA, action, tool or make_tool())


@pytest.mark.parametrize("action", ACTIONS)
def test_without_a_role_a_principal_may_do_everything_only_if_no_role_is_defined(
    action: Action,
) -> None:
    assert decide(make_config(), ANA, action, make_tool()).allowed
    defined = decide(make_config(dev={"admin": True}), ANA, action, make_tool())
    assert not defined.allowed
    assert "covalt.yaml has no default_role" in defined.reason


@pytest.mark.parametrize(
    ("config", "everything"),
    [
        (make_config(), True),
        (make_config(dev={"admin": True}), False),
        (make_config("dev", dev={"admin": True}), True),
        (make_config("dev", dev={"admin": True, "deny": ["a.b"]}), False),
        (make_config("dev", dev={"allow": ["**"]}), False),
    ],
)
def test_only_an_administrator_without_denials_sees_everything(
    config: ProjectConfig, *, everything: bool
) -> None:
    assert sees_everything(config, ANA) is everything


@pytest.mark.requirement("toolshed-policy.filter", "toolshed-roles")
@pytest.mark.parametrize(
    ("role", "allowed", "reason"),
    [
        ({"allow": ["app-builder.**"]}, True, "role 'dev' allows app-builder.**"),
        ({"allow": ["app-builder.read_*"]}, False, NOT_ALLOWED),
        ({"allow": ["*.read_file"]}, False, NOT_ALLOWED),
        ({}, False, NOT_ALLOWED),
        (
            {"allow": ["**"], "deny": ["app-builder.write_*"]},
            False,
            "role 'dev' denies app-builder.write_*",
        ),
        ({"admin": True}, True, "role 'dev' is admin"),
        ({"admin": True, "deny": ["*.write_file"]}, False, "role 'dev' denies *.write_file"),
        ({"approve": ["**"]}, False, NOT_ALLOWED),
    ],
)
def test_a_role_sees_and_calls_what_it_allows_and_does_not_deny(
    role: dict[str, Any], reason: str, *, allowed: bool
) -> None:
    assert ask(role, "call") == ask(role, "see") == Decision(allowed=allowed, reason=reason)


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        ({"approve": ["*.*"]}, True),
        ({"admin": True}, True),
        ({"allow": ["**"]}, False),
        ({"deny": ["**"], "approve": ["**"]}, True),
    ],
)
def test_the_right_to_approve_is_separate(role: dict[str, Any], *, allowed: bool) -> None:
    assert ask(role, "approve").allowed is allowed


def test_a_disabled_tool_is_hidden_and_cannot_be_called() -> None:
    off = make_tool(enabled=False)

    assert ask({"admin": True}, "see", off).allowed
    assert ask({"admin": True}, "call", off) == Decision(
        allowed=False, reason="'app-builder:write_file' is disabled"
    )
    assert not decide(make_config(), ANA, "call", off).allowed
    # A role that may not see the tool must not learn that it is disabled.
    assert "disabled" not in ask({}, "call", off).reason


@pytest.mark.requirement("toolshed-roles")
def test_the_role_of_the_principal_replaces_the_default_role() -> None:
    config = make_config("guest", guest={}, dev={"allow": ["**"]})

    assert decide(config, Principal("ci", role="dev"), "call", make_tool()).allowed
    assert not decide(config, Principal("ci"), "call", make_tool()).allowed


@pytest.mark.parametrize("role", ["developr", "admin", ""])
def test_an_undefined_role_is_an_error(role: str) -> None:
    for config in (make_config(), make_config("developer", developer={"admin": True})):
        with pytest.raises(UnknownRoleError) as caught:
            decide(config, Principal("ci", role=role), "see", make_tool())
        with pytest.raises(UnknownRoleError):
            sees_everything(config, Principal("ci", role=role))

    assert caught.value.http_status == 403
    assert ("did you mean 'developer'?" in caught.value.hint) is (role == "developr")


# Laws

WORDS = st.sampled_from(["a", "b", "ab", "read_x"])
SEGMENTS = st.sampled_from(["a", "b", "*", "a*", "*b", "**", "read_*"])
PATTERNS = st.just("**") | st.lists(SEGMENTS, min_size=2, max_size=3).map(".".join)
TOOLS: SearchStrategy[Tool] = st.builds(
    lambda namespace, name, enabled: make_tool(f"{namespace}:{name}", enabled=enabled),
    st.sampled_from(["a", "b", "ab"]),
    st.lists(WORDS, min_size=1, max_size=2).map(".".join),
    st.booleans(),
)
PATTERN_LISTS = st.lists(PATTERNS, max_size=3).map(tuple)
ROLES = st.builds(
    RoleConfig, allow=PATTERN_LISTS, deny=PATTERN_LISTS, approve=PATTERN_LISTS, admin=st.booleans()
)


def may(role: RoleConfig, action: Action, tool: Tool) -> bool:
    config = ProjectConfig(version=1, default_role="dev", roles={"dev": role})
    return decide(config, ANA, action, tool).allowed


@given(role=ROLES, tool=TOOLS, pattern=PATTERNS, action=st.sampled_from(ACTIONS))
@settings(max_examples=examples(150))
def test_more_patterns_of_a_kind_only_ever_widen_or_narrow_a_role(
    role: RoleConfig, tool: Tool, pattern: str, action: Action
) -> None:
    wider = role.model_copy(
        update={"allow": (pattern, *role.allow), "approve": (pattern, *role.approve)}
    )
    narrower = role.model_copy(update={"deny": (*role.deny, pattern)})
    denying = role.model_copy(update={"deny": (*role.deny, tool.path)})

    assert may(narrower, action, tool) <= may(role, action, tool) <= may(wider, action, tool)
    assert may(role, "call", tool) <= may(role, "see", tool)
    assert not may(denying, "call", tool)
    assert not may(denying, "see", tool)
