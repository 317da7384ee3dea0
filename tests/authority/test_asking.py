"""Rules are compared as they decide: nothing that asks less is told as asking more, or as the same."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git import yaml_text
from covalt_git.access import confirmation
from covalt_git.authority import State
from covalt_git.authority.asking import judge_rules, read_rules, rules_for
from covalt_git.authority.rule_changes import rule_changes
from covalt_git.files.reading import check
from covalt_git.models.project_config import ApprovalCondition, ApprovalRule, ProjectConfig
from covalt_git.models.tool import Tool
from covalt_git.models.toolset_manifest import Annotations

PATTERNS = ["**", "a.*", "a.x", "a.y*", "b.**"]
ARGUMENTS: list[dict[str, object]] = [
    {}, {"p": "x"}, {"p": "x*"}, {"p": "*"}, {"p": 1}, {"q": "y"},
    {"p": "x/*"}, {"p": "y"}, {"p": "x/../y"}, {"p": ["y"]}, {"p": ["./y"]},
]  # fmt: skip
ANNOTATIONS = [None, Annotations(destructive=True), Annotations(destructive=False, read_only=True)]

rules = st.lists(
    st.builds(
        lambda pattern, args, annotations, require: ApprovalRule(
            pattern=pattern,
            when=ApprovalCondition(args=args, annotations=annotations),
            require=require,
        ),
        st.sampled_from(PATTERNS),
        st.sampled_from(ARGUMENTS),
        st.sampled_from(ANNOTATIONS),
        st.booleans(),
    ),
    max_size=4,
)

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
@given(rules, rules)
def test_what_is_no_widening_asks_about_every_call_that_asked(
    old: list[ApprovalRule], new: list[ApprovalRule]
) -> None:
    before = ProjectConfig(version=1, approvals=tuple(old))
    now = ProjectConfig(version=1, approvals=tuple(new))
    whole = judge_rules(read_rules(old), read_rules(new))

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
    there = judge_rules(read_rules(old), read_rules(new))
    back = judge_rules(read_rules(new), read_rules(old))

    opposite = {"widening": "narrowing", "narrowing": "widening", "neutral": "neutral"}
    assert there.certain == back.certain
    assert back.verdict == (opposite[there.verdict] if there.certain else "widening")


@settings(max_examples=100, deadline=None)
@given(rules, rules)
def test_a_list_of_rules_that_asks_less_is_always_told(
    old: list[ApprovalRule], new: list[ApprovalRule]
) -> None:
    found = list(rule_changes(state(old), state(new)))
    whole = judge_rules(read_rules(old), read_rules(new))

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
        assert judge_rules(read_rules(others), read_rules(more)).verdict == "narrowing"
        assert judge_rules(read_rules(more), read_rules(others)).verdict == "widening"
        assert judge_rules(read_rules(others), read_rules(less)).verdict == "widening"
        assert judge_rules(read_rules(less), read_rules(others)).verdict == "narrowing"
