"""Rules are compared as they decide: nothing that asks less is told as asking more, or as the same."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.access import confirmation
from covalt_git.authority.asking import judge_rules, read_rules, rules_for
from covalt_git.models.project_config import ApprovalCondition, ApprovalRule, ProjectConfig
from covalt_git.models.tool import Tool
from covalt_git.models.toolset_manifest import Annotations

PATTERNS = ["**", "a.*", "a.x", "a.y*", "b.**"]
ARGUMENTS: list[dict[str, object]] = [{}, {"p": "x"}, {"p": "x*"}, {"p": "*"}, {"p": 1}, {"q": "y"}]
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
    {}, {"p": "x"}, {"p": "xy"}, {"p": "z"}, {"p": 1}, {"q": "y"}, {"p": "x", "q": "y"}
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
