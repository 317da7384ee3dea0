"""Rules are compared as they decide: nothing that asks less is told as asking more, or as the same."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git import yaml_text
from covalt_git.access import confirmation
from covalt_git.authority import State
from covalt_git.authority.approval_rules import judge_rules, rules_for
from covalt_git.authority.config_changes import rule_changes
from covalt_git.manifests.reading import check
from covalt_git.models.project_config import ApprovalCondition, ApprovalRule, ProjectConfig
from covalt_git.models.tool import Tool
from covalt_git.models.toolset_manifest import Annotations

PATTERNS = ["**", "a.*", "a.x", "a.y*", "b.**"]
ARGUMENTS: list[dict[str, object]] = [
    {}, {"p": "x"}, {"p": "x*"}, {"p": "*"}, {"p": 1}, {"q": "y"},
    {"p": "x/*"}, {"p": "y"}, {"p": "x/../y"}, {"p": ["y"]}, {"p": ["./y"]},
]  # fmt: skip
ANNOTATIONS = [None, Annotations(destructive=True), Annotations(destructive=False, read_only=True)]

one_rule = st.builds(
    lambda pattern, args, annotations, require: ApprovalRule(
        pattern=pattern,
        when=ApprovalCondition(args=args, annotations=annotations),
        require=require,
    ),
    st.sampled_from(PATTERNS),
    st.sampled_from(ARGUMENTS),
    st.sampled_from(ANNOTATIONS),
    st.booleans(),
)
rules = st.lists(one_rule, max_size=4)


@st.composite
def edited(draw: st.DrawFn) -> tuple[list[ApprovalRule], list[ApprovalRule]]:
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
CALLS: list[dict[str, object]] = [
    {}, {"p": "x"}, {"p": "xy"}, {"p": "z"}, {"p": 1}, {"q": "y"}, {"p": "x", "q": "y"},
    {"p": "y"}, {"p": "x/../y"}, {"p": "x/"}, {"p": "x/."}, {"p": "./x"}, {"p": "y/../x/y"},
    {"p": ["y"]}, {"p": ["./y"]}, {"p": ["x/../y"]},
]  # fmt: skip


def asked(config: ProjectConfig, tool: Tool) -> list[bool]:
    return [bool(confirmation(config, tool, args)) for args in CALLS]


@settings(max_examples=150, deadline=None)
@given(edited() | st.tuples(rules, rules))
def test_what_is_no_widening_asks_about_every_call_that_asked(
    pair: tuple[list[ApprovalRule], list[ApprovalRule]],
) -> None:
    old, new = pair
    before = ProjectConfig(version=1, approvals=tuple(old))
    now = ProjectConfig(version=1, approvals=tuple(new))
    whole = judge_rules(old, new)

    for tool in TOOLS:
        found = judge_rules(rules_for(old, tool), rules_for(new, tool))
        pairs = list(zip(asked(before, tool), asked(now, tool), strict=True))
        if any(one and not other for one, other in pairs):
            assert found.verdict == whole.verdict == "widening"
        if any(other and not one for one, other in pairs):
            assert found.verdict == "narrowing" or not found.certain
            assert whole.verdict == "narrowing" or not whole.certain


@settings(max_examples=100, deadline=None)
@given(rules, rules)
def test_the_other_way_round_is_the_opposite(
    old: list[ApprovalRule], new: list[ApprovalRule]
) -> None:
    there = judge_rules(old, new)
    back = judge_rules(new, old)

    opposite = {"widening": "narrowing", "narrowing": "widening", "neutral": "neutral"}
    assert there.certain == back.certain
    assert back.verdict == (opposite[there.verdict] if there.certain else "widening")


@settings(max_examples=100, deadline=None)
@given(rules, rules)
def test_a_list_of_rules_that_asks_less_is_always_told(
    old: list[ApprovalRule], new: list[ApprovalRule]
) -> None:
    found = list(rule_changes(state(old), state(new)))
    whole = judge_rules(old, new)

    told = {one.verdict for one in found}
    assert (told == set()) is (whole.verdict == "neutral")
    assert ("widening" in told) is (whole.verdict == "widening")
    assert whole.verdict != "narrowing" or told == {"narrowing"}


def state(rules: list[ApprovalRule]) -> State:
    text = json.dumps(
        {
            "version": 1,
            "approvals": [json.loads(one.model_dump_json(exclude_none=True)) for one in rules],
        }
    )
    reading = check(yaml_text.load(text, "covalt.yaml"), ProjectConfig)
    return State(None, reading, (), (), {})


def rule(pattern: str, *, require: bool = True) -> ApprovalRule:
    return ApprovalRule(pattern=pattern, require=require)


def test_many_rules_about_other_tools_are_in_nobodys_way() -> None:
    others = [rule(f"t{at}.*", require=at % 2 == 0) for at in range(100)]

    for at in (0, 50, 100):
        more = [*others[:at], rule("a.*"), *others[at:]]
        less = [*others[:at], rule("a.*", require=False), *others[at:]]
        assert judge_rules(others, more).verdict == "narrowing"
        assert judge_rules(more, others).verdict == "widening"
        assert judge_rules(others, less).verdict == "widening"
        assert judge_rules(less, others).verdict == "narrowing"


def test_true_and_1_are_other_arguments_and_the_order_of_keys_is_none() -> None:
    one, other = (
        [ApprovalRule(pattern="a.*", when=ApprovalCondition(args=args))]
        for args in ({"p": 1, "q": 1}, {"p": 1, "q": True})
    )
    turned = [ApprovalRule(pattern="a.*", when=ApprovalCondition(args={"q": 1, "p": 1}))]

    assert judge_rules(one, other).verdict == "widening"
    assert judge_rules(one, turned).verdict == "neutral"
