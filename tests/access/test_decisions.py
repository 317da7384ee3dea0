"""Decisions: what a role may see, call and approve, and the words that say why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.access import Action, Decision, Principal, UnknownRoleError, decide, sees_everything
from covalt_git.models.project_config import ProjectConfig, RoleConfig
from covalt_git.models.tool import Tool

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

ACTIONS: tuple[Action, ...] = ("see", "call", "approve")
ANA = Principal("ana")


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
def test_without_roles_the_person_at_this_machine_is_admin(action: Action) -> None:
    assert decide(make_config(), ANA, action, make_tool()) == Decision(
        allowed=True, reason="no role is defined, so the person at this machine is admin"
    )


@pytest.mark.parametrize(
    ("config", "everything"),
    [
        pytest.param(make_config(), True, id="no-roles"),
        pytest.param(make_config(dev={"admin": True}), False, id="no-role"),
        pytest.param(make_config("dev", dev={"admin": True}), True, id="admin"),
        pytest.param(make_config("dev", dev={"admin": True, "deny": ["a.b"]}), False, id="denied"),
        pytest.param(make_config("dev", dev={"allow": ["**"]}), False, id="allowed-by-pattern"),
    ],
)
def test_only_whom_nothing_could_be_hidden_from_sees_everything(
    config: ProjectConfig, *, everything: bool
) -> None:
    assert sees_everything(config, ANA) is everything


def test_an_undefined_role_sees_not_even_that() -> None:
    with pytest.raises(UnknownRoleError):
        sees_everything(make_config(dev={}), Principal("ana", "ghost"))


@pytest.mark.parametrize("action", ACTIONS)
def test_where_roles_are_defined_nobody_without_one_may_do_anything(action: Action) -> None:
    assert decide(make_config(dev={"admin": True}), ANA, action, make_tool()) == Decision(
        allowed=False, reason="'ana' has no role, and covalt.yaml names no default_role"
    )


@pytest.mark.parametrize(
    ("role", "allowed", "reason"),
    [
        pytest.param(
            {"allow": ["app-builder.**"]}, True, "role 'dev' allows app-builder.**", id="allow"
        ),
        pytest.param(
            {"allow": ["app-builder.read_*"]},
            False,
            "nothing that role 'dev' allows matches app-builder.write_file",
            id="no-pattern-matches",
        ),
        pytest.param(
            {},
            False,
            "nothing that role 'dev' allows matches app-builder.write_file",
            id="empty-role",
        ),
        pytest.param(
            {"allow": ["**"], "deny": ["app-builder.write_*"]},
            False,
            "role 'dev' denies app-builder.write_*",
            id="deny-beats-allow",
        ),
        pytest.param({"admin": True}, True, "role 'dev' is admin", id="admin"),
        pytest.param(
            {"admin": True, "deny": ["*.write_file"]},
            False,
            "role 'dev' denies *.write_file",
            id="deny-beats-admin",
        ),
        pytest.param(
            {"approve": ["**"]},
            False,
            "nothing that role 'dev' allows matches app-builder.write_file",
            id="approving-is-not-calling",
        ),
    ],
)
def test_calling_and_seeing_follow_the_role(
    role: dict[str, Any],
    allowed: bool,  # noqa: FBT001 - a column of the table
    reason: str,
) -> None:
    assert ask(role, "call") == Decision(allowed=allowed, reason=reason)
    assert ask(role, "see") == Decision(allowed=allowed, reason=reason)


@pytest.mark.parametrize(
    ("role", "allowed", "reason"),
    [
        pytest.param({"approve": ["*.*"]}, True, "role 'dev' approves *.*", id="approve"),
        pytest.param({"admin": True}, True, "role 'dev' is admin", id="admin"),
        pytest.param(
            {"allow": ["**"]},
            False,
            "nothing that role 'dev' approves matches app-builder.write_file",
            id="calling-is-not-approving",
        ),
        pytest.param(
            {"deny": ["**"], "approve": ["**"]},
            True,
            "role 'dev' approves **",
            id="a-reviewer-who-may-call-nothing",
        ),
    ],
)
def test_approving_is_a_right_of_its_own(
    role: dict[str, Any],
    allowed: bool,  # noqa: FBT001 - a column of the table
    reason: str,
) -> None:
    assert ask(role, "approve") == Decision(allowed=allowed, reason=reason)


def test_disabled_tool_is_seen_but_called_by_nobody() -> None:
    off = make_tool(enabled=False)

    assert ask({"admin": True}, "see", off).allowed
    assert ask({"admin": True}, "call", off) == Decision(
        allowed=False, reason="'app-builder:write_file' is disabled"
    )
    assert not decide(make_config(), ANA, "call", off).allowed


def test_disabled_tool_is_not_told_to_whom_it_does_not_exist_for() -> None:
    decision = ask({}, "call", make_tool(enabled=False))

    assert "disabled" not in decision.reason


def test_role_of_the_principal_wins_over_the_default_role() -> None:
    config = make_config("guest", guest={}, dev={"allow": ["**"]})

    assert decide(config, Principal("ci", role="dev"), "call", make_tool()).allowed
    assert not decide(config, Principal("ci"), "call", make_tool()).allowed


def test_unknown_role_names_the_nearest() -> None:
    config = make_config("developer", developer={"admin": True})

    with pytest.raises(UnknownRoleError) as caught:
        decide(config, Principal("ci", role="developr"), "see", make_tool())

    assert str(caught.value) == (
        "no role 'developr'\n"
        "  hint: did you mean 'developer'? list them with `grep -A9 roles: covalt.yaml`"
    )
    assert caught.value.code == "unknown_role"
    assert caught.value.http_status == 403


@pytest.mark.parametrize("role", ["admin", ""])
def test_naming_a_role_where_none_is_defined_is_an_error(role: str) -> None:
    with pytest.raises(UnknownRoleError):
        decide(make_config(), Principal("ci", role=role), "call", make_tool())


WORDS = st.sampled_from(["a", "b", "ab", "read_x"])
PATTERNS = st.one_of(
    st.just("**"),
    st.lists(
        st.sampled_from(["a", "b", "*", "a*", "*b", "**", "read_*"]), min_size=2, max_size=3
    ).map(".".join),
)
TOOLS: SearchStrategy[Tool] = st.builds(
    lambda namespace, name, enabled: make_tool(f"{namespace}:{name}", enabled=enabled),
    st.sampled_from(["a", "b", "ab"]),
    st.lists(WORDS, min_size=1, max_size=2).map(".".join),
    st.booleans(),
)
PATTERN_LISTS = st.lists(PATTERNS, max_size=3).map(tuple)
ROLES = st.builds(
    RoleConfig,
    allow=PATTERN_LISTS,
    deny=PATTERN_LISTS,
    approve=PATTERN_LISTS,
    admin=st.booleans(),
)


def answer(role: RoleConfig, action: Action, tool: Tool) -> Decision:
    config = ProjectConfig(version=1, default_role="dev", roles={"dev": role})
    return decide(config, ANA, action, tool)


@given(role=ROLES, tool=TOOLS, action=st.sampled_from(["see", "call"]))
@settings(deadline=None)
def test_deny_always_wins(role: RoleConfig, tool: Tool, action: Action) -> None:
    denying = role.model_copy(update={"deny": (*role.deny, tool.path)})

    assert not answer(denying, action, tool).allowed


@given(role=ROLES, tool=TOOLS, pattern=PATTERNS, action=st.sampled_from(ACTIONS))
@settings(deadline=None)
def test_another_allow_or_approve_never_takes_away(
    role: RoleConfig, tool: Tool, pattern: str, action: Action
) -> None:
    wider = role.model_copy(
        update={"allow": (pattern, *role.allow), "approve": (pattern, *role.approve)}
    )

    assert answer(role, action, tool).allowed <= answer(wider, action, tool).allowed


@given(role=ROLES, tool=TOOLS, pattern=PATTERNS, action=st.sampled_from(ACTIONS))
@settings(deadline=None)
def test_another_deny_never_gives(
    role: RoleConfig, tool: Tool, pattern: str, action: Action
) -> None:
    narrower = role.model_copy(update={"deny": (*role.deny, pattern)})

    assert answer(narrower, action, tool).allowed <= answer(role, action, tool).allowed


@given(role=ROLES, tool=TOOLS)
@settings(deadline=None)
def test_what_may_be_called_is_seen(role: RoleConfig, tool: Tool) -> None:
    assert answer(role, "call", tool).allowed <= answer(role, "see", tool).allowed


@given(role=ROLES, tool=TOOLS, action=st.sampled_from(ACTIONS))
@settings(deadline=None)
def test_equal_questions_have_equal_answers(role: RoleConfig, tool: Tool, action: Action) -> None:
    before = role.model_dump()

    assert answer(role, action, tool) == answer(role.model_copy(deep=True), action, tool)
    assert role.model_dump() == before
