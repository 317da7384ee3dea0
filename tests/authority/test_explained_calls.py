"""What ``explain_policy`` reports about a call is what the call does, by random rules, roles, tools and arguments."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.errors import CovaltError
from tests.api_client import configure, make_project
from tests.examples import examples
from tests.operations_client import Operations

ROLES: dict[str, Any] = {
    "owner": {"admin": True},
    "agent": {"allow": ["**"], "approve": ["**"]},
    "some": {"allow": ["registered.*", "workspace.*"]},
    "reader": {"allow": ["*.read_file", "workspace.**"], "deny": ["workspace.write_*"]},
}
TOOLS = (
    "app-builder:write_file",
    "app-builder:read_file",
    "workspace:read_file",
    "workspace:list_files",
    "workspace:write_file",
    "registered:writes",
    "registered:reads",
)
_ALIASES = {"writes": "app-builder:write_file", "reads": "app-builder:read_file"}
_PATTERNS = (
    *(tool.replace(":", ".") for tool in TOOLS),
    *("**", "app-builder.*", "*.read_file", "registered.*", "workspace.**"),
)
_PATHS: tuple[Any, ...] = ("a.txt", "src/a.txt", "src/../b.txt", "./src/a.txt", "src", 5, None)
_CONDITIONS: tuple[Any, ...] = (
    *("a.txt", "src/*", "*.txt"),
    *({"under": "src"}, {"not": "a.txt"}, {"exists": True}, {"exists": False}),
    *({"in": ["b.txt", "a*"]}, {"in": ["src/a.txt", 5]}, {"min": 3}, {"not": {"under": "src"}}),
)


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Operations:
    owner = Operations(make_project(tmp_path_factory.mktemp("explained") / "project"), "owner")
    set_rules(owner.root, [])
    for name, target in _ALIASES.items():
        entry = {"tool_id": name, "name": name, "protocol_meta": {"mcp": {"tool": target}}}
        owner("register_tool", entry=entry)
        owner("add_grant", toolset_id="registered", kind="tool", name=name)
    owner("create_chat", chat_id="c1")
    return owner


def set_rules(root: Path, rules: list[dict[str, Any]]) -> None:
    configure(root, yaml.safe_dump({"default_role": "owner", "roles": ROLES, "rules": rules}))


def random_rule(random: Random) -> dict[str, Any]:
    rule: dict[str, Any] = {"pattern": random.choice(_PATTERNS)}
    rule["effect"] = random.choice(("allow", "ask", "ask", "deny"))
    # Never the owner, who explains the calls: a tool that is hidden from it has no explanation.
    rule["roles"] = random.sample(["agent", "some", "reader"], random.choice((2, 3)))
    if random.random() < 0.6:
        rule["when"] = {"args": {"path": random.choice(_CONDITIONS)}}
    return rule


def random_args(random: Random, tool: str) -> dict[str, Any]:
    args: dict[str, Any] = {"path": random.choice(_PATHS)} if random.random() < 0.9 else {}
    if "write" in tool and random.random() < 0.9:
        args["content"] = "x"
    if random.random() < 0.1:
        args["pth"] = "a.txt"
    return args


def outcome(operations: Operations, tool: str, args: dict[str, Any]) -> str:
    """Make a call, and return what happened by the words of an explanation."""
    try:
        status = operations("call_tool", chat_id="c1", tool_id=tool, args=args)["status"]
    except CovaltError as error:
        codes = {"unknown_tool": "hidden", "invalid_arguments": "invalid"}
        codes |= {"policy_denied": "denied", "needs_person": "denied"}
        return codes.get(error.code, "runs")  # such as a file that does not exist
    return "asks" if status == "pending" else "runs"


@settings(max_examples=examples(60))
@given(random=st.randoms(use_true_random=False))
def test_a_call_does_what_its_explanation_reports(owner: Operations, random: Random) -> None:
    set_rules(owner.root, [random_rule(random) for _ in range(random.randrange(5))])
    for _ in range(4):
        role, tool = random.choice(("agent", "some", "reader")), random.choice(TOOLS)
        args = random_args(random, tool)
        explained = owner("explain_policy", tool_id=tool, role=role, args=args)
        assert outcome(owner.as_role(role), tool, args) == explained["decision"], (role, tool, args)
        (listed,) = (
            one for one in owner("list_tool_roles", tool_id=tool)["roles"] if one["role"] == role
        )
        if explained["decision"] in {"runs", "asks"}:
            asked = {"runs": "always", "asks": "never"}[explained["decision"]]
            assert listed["calls"]
            assert listed["asked"] != asked
        elif explained["decision"] == "hidden":
            assert not listed["calls"]


def test_the_rules_about_the_tool_of_an_alias_are_those_of_its_calls(owner: Operations) -> None:
    def roles() -> dict[str, tuple[bool, str]]:
        listed = owner("list_tool_roles", tool_id="registered:writes")["roles"]
        return {one["role"]: (one["calls"], one["asked"]) for one in listed}

    set_rules(owner.root, [{"pattern": "app-builder.write_file", "effect": "ask"}])
    assert roles()["agent"] == (True, "always")
    assert roles()["some"] == (False, "never")  # the target is hidden from it
    args = {"path": "a.txt", "content": "x"}
    some = owner.as_role("some")("explain_policy", tool_id="registered:writes", args=args)
    assert some["decision"] == "hidden"
    assert "app-builder" not in str(some)


def test_a_call_that_cannot_wait_for_approval_is_denied(owner: Operations) -> None:
    set_rules(owner.root, [{"pattern": "workspace.read_file", "effect": "ask"}])
    explained = owner(
        "explain_policy", tool_id="workspace:read_file", role="agent", args={"path": "a.txt"}
    )

    assert explained["decision"] == "denied"
    assert "cannot be pending" in str(explained["reasons"])


@pytest.mark.parametrize("args", ["{pth: a.txt, content: x}", "{path: a.txt}", "{1: 2}"])
def test_a_case_whose_arguments_are_invalid_fails_at_their_line(
    owner: Operations, args: str
) -> None:
    set_rules(owner.root, [])
    case = f"{{role: agent, tool: 'app-builder:write_file', args: {args}, expect: runs}}"
    (owner.root / "policy_tests.yaml").write_text(f"version: 1\ncases:\n  - {case}\n")
    (problem,) = owner("run_policy_tests")["problems"]
    (owner.root / "policy_tests.yaml").unlink()

    assert (problem["code"], problem["line"]) == ("CG408", 3)
    assert "invalid" in problem["message"]


@pytest.mark.parametrize(
    "text", ['{"path": "a", "path": "b"}', '{"path": NaN}', '{"path": ' + "[" * 100_000, "[]"]
)
def test_arguments_that_a_call_refuses_are_refused_on_the_command_line(
    text: str, cli: Callable[..., tuple[int, str]]
) -> None:
    status, printed = cli("policy", "explain", "app-builder:read_file", "--args", text)

    assert status == 2
    assert "--args" in printed
    assert "Traceback" not in printed
