"""Changes of approval rules: what asks less is never reported as asking more, or as the same."""

import json

from hypothesis import given
from hypothesis import strategies as st

from covalt_git import yaml_text
from covalt_git.access import confirmation
from covalt_git.authority import ProjectSnapshot
from covalt_git.authority.approval_rules import always, judge_rules, rules_for
from covalt_git.authority.comparison import compare
from covalt_git.authority.config_changes import rule_changes
from covalt_git.manifests.reading import check
from covalt_git.models.project_config import ProjectConfig
from covalt_git.models.rules import ApprovalCondition, ApprovalRule, PolicyRule
from covalt_git.models.tool import Tool
from covalt_git.models.tool_properties import Annotations
from tests.stress.authority_diff import snapshot

Rules = list[PolicyRule]
CALLS: list[dict[str, object]] = [
    {"p": path} for path in ("x", "xy", "z", "y", "x/../y", "x/", "x/.", "./x", "y/../x/y", 1)
]
CALLS += [{}, {"q": "y"}, {"p": "x", "q": "y"}, {"p": ["y"]}, {"p": ["./y"]}, {"p": ["x/../y"]}]
ARGUMENTS: list[dict[str, object]] = [{"p": path} for path in ("x*", "*", "x/*", ["./y"])]
ANNOTATIONS = [None, Annotations(destructive=True), Annotations(destructive=False, read_only=True)]
TOOLS = [
    Tool(
        tool_id=tool_id,
        toolset_id=tool_id[0],
        name="x",
        input_schema={},
        annotations=annotations or Annotations(),
        confirmation=("toolset",) if asks else (),
    )
    for tool_id in ("a:x", "a:yes", "b:x")
    for annotations in ANNOTATIONS
    for asks in (True, False)
]
OPPOSITE = {"widening": "narrowing", "narrowing": "widening", "neutral": "neutral"}


def rule(
    pattern: str, *, require: bool = True, annotations: Annotations | None = None, **args: object
) -> PolicyRule:
    when = ApprovalCondition(args=args, annotations=annotations)
    return ApprovalRule(pattern=pattern, when=when, require=require).as_rule


one_rule = st.builds(
    lambda pattern, args, annotations, require: rule(
        pattern, require=require, annotations=annotations, **args
    ),
    st.sampled_from(["**", "a.*", "a.x", "a.y*", "b.**"]),
    st.sampled_from([*ARGUMENTS, *CALLS]),
    st.sampled_from(ANNOTATIONS),
    st.booleans(),
)
rules = st.lists(one_rule, max_size=4)


@st.composite
def edited(draw: st.DrawFn) -> tuple[Rules, Rules]:
    """Return rules, and the same with one or two of them inserted or removed."""
    old = draw(rules)
    new = list(old)
    for _ in range(draw(st.integers(1, 2))):
        at = draw(st.integers(0, len(new)))
        if at < len(new) and draw(st.booleans()):
            del new[at]
        else:
            new.insert(at, draw(one_rule))
    return old, new


def asked(rules: Rules, tool: Tool) -> list[bool]:
    config = ProjectConfig(version=1, rules=tuple(rules))
    return [bool(confirmation(config, tool, args)) for args in CALLS]


@given(edited() | st.tuples(rules, rules))
def test_rules_are_judged_as_they_decide_about_calls(pair: tuple[Rules, Rules]) -> None:
    old, new = pair
    whole, back = judge_rules(old, new), judge_rules(new, old)

    assert whole.certain == back.certain
    assert back.verdict == (OPPOSITE[whole.verdict] if whole.certain else "widening")
    for tool in TOOLS:
        found = judge_rules(rules_for(old, tool), rules_for(new, tool))
        answers = list(zip(asked(old, tool), asked(new, tool), strict=True))
        if (True, False) in answers:
            assert found.verdict == whole.verdict == "widening"
        if (False, True) in answers:
            assert found.verdict == "narrowing" or not found.certain
            assert whole.verdict == "narrowing" or not whole.certain


@given(rules, rules)
def test_the_lines_about_rules_have_the_verdict_of_all_rules(old: Rules, new: Rules) -> None:
    verdict = judge_rules(old, new).verdict
    reported = {one.verdict for one in rule_changes(state(old), state(new))}

    assert (reported == set()) is (verdict == "neutral")
    assert ("widening" in reported) is (verdict == "widening")
    assert verdict != "narrowing" or reported == {"narrowing"}


def state(rules: Rules) -> ProjectSnapshot:
    dumped = [
        {"pattern": one.pattern, "when": one.condition, "effect": one.effect}
        | ({"roles": one.roles} if one.roles else {})
        for one in rules
    ]
    text = json.dumps({"version": 1, "roles": {"dev": {}, "ops": {}}, "rules": dumped})
    reading = check(yaml_text.load(text, "covalt.yaml"), ProjectConfig)
    return ProjectSnapshot(None, reading, (), (), {})


def test_a_default_role_with_other_rules_is_another_one() -> None:
    roles = {"dev": {"allow": ["**"]}, "ops": {"allow": ["**"]}}
    deny: dict[str, object] = {"pattern": "a.x", "effect": "deny", "roles": ["dev"]}

    def is_wider(*rules: dict[str, object]) -> bool:
        files = (
            {"version": 1, "roles": roles, "rules": rules, "default_role": name} for name in roles
        )
        return compare(*map(snapshot, files)).grown

    assert is_wider(deny)
    assert not is_wider(deny | {"roles": ["dev", "ops"]})


def test_true_and_1_are_different_arguments_and_the_order_of_keys_does_not_matter() -> None:
    one = [rule("a.*", p=1, q=1)]

    assert judge_rules(one, [rule("a.*", p=1, q=True)]).verdict == "widening"
    assert judge_rules(one, [rule("a.*", q=1, p=1)]).verdict == "neutral"


def test_a_rule_about_an_argument_that_a_tool_never_has_is_not_about_the_tool() -> None:
    about_paths = [rule("a.*", path="*.env")]
    closed = {"type": "object", "properties": {"amount": {}}, "additionalProperties": False}
    tool = Tool(tool_id="a:x", toolset_id="a", name="x", input_schema=closed)

    assert always(rules_for(about_paths, tool)) == "allow"
    assert always(rules_for([rule("a.*", amount=1)], tool)) is None
    assert always(rules_for(about_paths, tool.model_copy(update={"input_schema": {}}))) is None
