"""Rules of ``covalt.yaml``: what they decide about calls, and which tools they hide."""

from typing import Any

import pytest
from pydantic import ValidationError

from covalt_git.access import NamedTool, Principal, decide, decide_call, is_admin, sees_everything
from covalt_git.access.free_calls import free_calls
from covalt_git.authority.approval_rules import judge_rules
from covalt_git.models.project_config import ProjectConfig
from covalt_git.models.tool import Tool
from covalt_git.trust.permissions import config_permissions
from tests.stress import authority_diff
from tests.stress import rules as random_rules
from tests.stress.figures import Proof

ROLES = {"reader": {"allow": ["**"]}, "owner": {"admin": True}}


def config(*rules: dict[str, Any], **more: Any) -> ProjectConfig:
    return ProjectConfig.model_validate({"version": 1, "rules": rules} | more)


def rule(effect: str, pattern: str = "**", **more: Any) -> dict[str, Any]:
    args = more.pop("args", None)
    when = {"when": {"args": args}} if args is not None else {}
    return {"pattern": pattern, "effect": effect, **when, **more}


def tool(tool_id: str = "a:x", **fields: Any) -> Tool:
    schema = {"input_schema": {}, "kind": "http"}
    return Tool.model_validate(
        {"tool_id": tool_id, "toolset_id": "a", "name": "x", **schema, **fields}
    )


def effect(made: ProjectConfig, args: dict[str, Any], role: str | None = None) -> str:
    return decide_call(made.rules_for(role), [tool()], args).effect


@pytest.mark.parametrize(
    ("condition", "matching", "others"),
    [
        ({"in": ["a", "b*"]}, ["a", "bc", "./a"], ["c", None, 1]),
        ({"in": [1, None]}, [1, None], [2, True]),
        ({"min": 10}, [10, 10.5, "11"], [9, True, None, "x", [], {}]),
        ({"min": 1, "max": 3}, [1, 2.5], [0, 4, "a"]),
        (
            {"under": "src"},
            ["src/a", "src/../src/b", "x/../src/a", "./src/a", "src"],
            ["srca", "a", 1],
        ),
        ({"not": "a*"}, ["b", 1, None], ["a", "ab"]),
        ({"not": {"in": [1, 2]}}, [3, "a"], [1, 2]),
        ({"exists": True}, [1, None], []),
        ({"exists": False}, [None], [1, False]),
        ({"min": 1, "not": {"in": [5]}}, [4, 6], [5, 0, "a"]),
    ],
)
def test_a_condition_matches_values_of_its_type(
    condition: Any, matching: list[Any], others: list[Any]
) -> None:
    denies = config(rule("deny", args={"p": condition}))

    assert [value for value in matching if effect(denies, {"p": value}) != "deny"] == []
    assert [value for value in others if effect(denies, {"p": value}) != "allow"] == []


def test_only_the_absence_of_an_argument_and_not_match_a_missing_one() -> None:
    matching = [
        condition
        for condition in (
            {"in": ["a"]},
            {"min": 1},
            {"under": "a"},
            {"exists": True},
            {"exists": False},
            {"not": "a"},
        )
        if effect(config(rule("deny", args={"p": condition})), {}) == "deny"
    ]
    assert matching == [{"exists": False}, {"not": "a"}]


def test_a_rule_that_allows_needs_both_forms_of_a_path() -> None:
    allows = config(rule("allow", args={"p": {"under": "src"}}), rule("ask"))

    assert effect(allows, {"p": "src/a"}) == "allow"
    for other in ("src/../b", "x/../src/a", "src", "./src/a", ["src/a"]):
        assert effect(allows, {"p": other}) == "ask", other
    unless = config(rule("allow", args={"p": {"not": {"under": "src"}}}), rule("ask"))
    assert effect(unless, {"p": "x/../src/a"}) == "ask"
    assert effect(unless, {"p": "lib/a"}) == "allow"


def test_conditions_of_a_rule_that_denies_read_defaults_and_values_inside() -> None:
    schema = {"properties": {"p": {"default": 200}}}
    denies = config(rule("deny", args={"p": {"min": 100}}))

    assert decide_call(denies.rules, [tool(input_schema=schema)], {}).effect == "deny"
    assert effect(denies, {"p": [1, 150]}) == "deny"


def test_the_first_rule_about_the_role_decides_and_its_reason_is_reported() -> None:
    made = config(
        rule("allow", roles=["owner"]),
        rule("deny", args={"p": 1}, reason="ask Ann"),
        rule("ask", "a.*"),
        roles=ROLES,
    )

    assert [effect(made, {"p": 1}, role) for role in ("owner", "reader", None)] == [
        "allow",
        "deny",
        "deny",
    ]
    assert decide_call(made.rules_for("reader"), [tool()], {"p": 1}).reasons == (
        "rule ** denies it: ask Ann",
    )
    assert effect(made, {"p": 2}, "reader") == "ask"


def test_an_alias_is_denied_with_its_tool() -> None:
    made = config(rule("deny", "b.y", args={"p": 1}), rule("ask", "a.*"))

    assert decide_call(made.rules, [tool("a:x"), tool("b:y")], {"p": 1}).effect == "deny"
    assert decide_call(made.rules, [tool("a:x"), tool("b:y")], {"p": 2}).effect == "ask"


def test_a_rule_that_denies_all_calls_hides_the_tool_unless_an_earlier_one_allows_some() -> None:
    def seen(*rules: dict[str, Any], role: str = "reader") -> bool:
        made = config(*rules, roles=ROLES)
        return decide(made, Principal("p", role), "see", NamedTool("a:x")).allowed

    assert not seen(rule("deny", "a.*"))
    assert not seen(rule("deny", "a.*"), role="owner")
    assert not seen(rule("deny", args={"p": 1}), rule("deny", "a.x"))
    assert seen(rule("deny", "a.*", roles=["owner"]))
    assert seen(rule("deny", args={"p": 1}))
    assert seen(rule("allow", args={"p": 1}), rule("deny", "a.x"))
    # A rule never makes a tool visible, and hides none from those who approve its calls.
    closed = config(rule("allow"), roles={"reader": {"deny": ["a.x"], "allow": ["**"]}})
    assert not decide(closed, Principal("p", "reader"), "see", NamedTool("a:x")).allowed
    approving = config(rule("deny"), roles={"reader": {"approve": ["**"]}})
    assert decide(approving, Principal("p", "reader"), "approve", NamedTool("a:x")).allowed


def test_an_admin_from_whom_a_rule_hides_a_tool_is_none() -> None:
    made = config(rule("deny", "a.x"), roles=ROLES)
    other = config(rule("deny", "a.x", roles=["reader"]), roles=ROLES)

    assert not is_admin(made, Principal("p", "owner"))
    assert is_admin(other, Principal("p", "owner"))
    assert not sees_everything(config(rule("deny", "a.x")), Principal("local"))


@pytest.mark.parametrize(
    "wrong",
    [
        rule("deny", roles=["nobody"]),
        rule("deny", roles=[]),
        rule("deny", args={"p": {}}),
        rule("deny", args={"p": {"min": 3, "max": 1}}),
        rule("deny", args={"p": {"exists": False, "in": [1]}}),
        rule("deny", args={"p": {"under": "../a"}}),
        rule("deny", args={"p": {"in": []}}),
        rule("deny", args={"p": {"equals": 1}}),
        {"pattern": "**"},
    ],
)
def test_a_rule_that_can_match_nothing_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        config(wrong, roles=ROLES)


def test_approvals_are_read_as_rules_and_both_are_refused() -> None:
    old = {"pattern": "a.*", "when": {"args": {"p": {"in": [1]}}}}
    made = ProjectConfig.model_validate({"version": 1, "approvals": [old]})

    # In approvals, a mapping is a value.
    assert [effect(made, {"p": value}) for value in ({"in": [1]}, 1)] == ["ask", "allow"]
    with pytest.raises(ValidationError):
        config(rule("ask"), approvals=[old])


def test_rules_decide_as_a_second_implementation() -> None:
    random_rules.prove(Proof("rules", random_rules.PROMISE), 4000, seed=2)


def test_no_change_that_lets_more_calls_run_is_reported_as_narrower() -> None:
    authority_diff.prove(Proof("authority_diff", authority_diff.PROMISE), 500, seed=2)


def reach(*rules: dict[str, Any]) -> tuple[dict[str, dict[str, str]], list[Any]]:
    """Return the calls without approval, and the permissions that need trust, with what limits them."""
    made = config(*rules, roles=ROLES)
    permissions = [
        permission for permission in config_permissions(made) if "rule" in permission.fact
    ]
    return free_calls(made.rules, tool()), permissions


def test_a_rule_that_denies_limits_what_is_trusted_so_that_its_removal_needs_trust() -> None:
    allow = rule("allow", args={"p": "a*"})
    for deny in (rule("deny", args={"p": "ab"}), rule("deny", roles=["reader"])):
        free, (limited,) = reach(deny, allow)
        free_without, (without,) = reach(allow)

        # A consent for fewer limits covers more; one with a limit covers nothing without it.
        assert limited.key == without.key
        assert without.beyond(limited.reach) is not None
        assert limited.beyond(without.reach) is None
        assert free[""].keys() > free_without[""].keys() or not free_without[""]
        assert all(free.values())
    assert reach(rule("deny"), allow)[0] == {}


def test_approvals_that_are_written_as_rules_need_no_new_trust() -> None:
    old = {"pattern": "a.*", "when": {"args": {"p": "x*"}}, "require": False}
    before = ProjectConfig.model_validate({"version": 1, "approvals": [old]})
    after = config(rule("allow", "a.*", args={"p": "x*"}))
    typed = config(rule("allow", "a.*", args={"p": {"in": ["x*"]}}))

    (one,), (same,), (other,) = map(config_permissions, (before, after, typed))
    assert one.key == same.key != other.key
    assert one.fact == {"rule": {"pattern": "a.*", "when": {"args": {"p": "x*"}}, "require": False}}


def test_a_rule_for_the_default_role_needs_trust_of_its_own() -> None:
    allow = rule("allow", roles=["reader"])
    facts = [
        [one.key for one in config_permissions(made) if "rule" in one.fact]
        for made in (config(allow, roles=ROLES), config(allow, roles=ROLES, default_role="reader"))
    ]
    assert facts[0] != facts[1]


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ([], [rule("deny")], "narrowing"),
        ([rule("deny")], [], "widening"),
        ([rule("allow")], [], "narrowing"),
        ([], [rule("ask")], "narrowing"),
        ([rule("deny", "a.*")], [rule("ask", "a.x"), rule("deny", "a.*")], "widening"),
        ([rule("deny", "b.*")], [rule("ask", "a.x"), rule("deny", "b.*")], "narrowing"),
        ([rule("allow")], [rule("allow", args={"p": 1})], "narrowing"),
        ([rule("allow", args={"p": 1})], [rule("allow", args={"p": 2})], "widening"),
        ([rule("ask")], [rule("deny")], "widening"),
        ([rule("allow")], [rule("allow", roles=["reader"])], "narrowing"),
        ([rule("deny"), rule("ask")], [rule("ask"), rule("deny")], "widening"),
        ([rule("deny", reason="a")], [rule("deny", reason="b")], "neutral"),
    ],
)
def test_a_change_of_rules_is_judged(old: list[Any], new: list[Any], verdict: str) -> None:
    rules = [config(*one, roles=ROLES).rules for one in (old, new)]
    assert judge_rules(*rules).verdict == verdict
