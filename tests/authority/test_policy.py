"""The policy of a project: explained line by line, tested by cases, and rules that decide about nothing."""

import os
import re
from pathlib import Path

import pytest

from covalt_git.authority.policy_problems import policy_problems
from covalt_git.authority.project_tools import ProjectTools
from covalt_git.authority.rule_proofs import rule_problems
from covalt_git.manifests.project_config import config_reading
from tests.api_client import make_project
from tests.counted_work import work_of
from tests.operations_client import Operations
from tests.workspaces.stores import commit_all

PAGE = (Path(__file__).parents[2] / "docs/how-to/policy.md").read_text(encoding="utf-8")
ROLES = "version: 1\nroles:\n  owner: {admin: true}\n  agent: {allow: ['app-builder.*']}\nrules:\n"


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found
    return found[1]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("policy") / "project")


def codes(root: Path, *rules: str, cases: str = "") -> list[tuple[str, int]]:
    """Return the codes of the problems of rules, with their lines."""
    (root / "covalt.yaml").write_text(ROLES + "".join(f"  - {rule}\n" for rule in rules))
    (root / "policy_tests.yaml").write_text(
        f"version: 1\ncases:\n{cases}" if cases else "version: 1\n"
    )
    return [(problem.code, problem.line) for problem in policy_problems(root)]


def test_the_how_to_lets_a_team_in_and_its_cases_pass(root: Path) -> None:
    (root / "covalt.yaml").write_text(block("yaml covalt.yaml"))
    (root / "policy_tests.yaml").write_text(block("yaml policy_tests.yaml"))
    owner = Operations(root)

    tested = owner("run_policy_tests")
    assert (tested["cases"], tested["problems"]) == (7, [])
    assert tested["unreached"] == []
    explained = owner(
        "explain_policy",
        tool_id="app-builder:write_file",
        role="agent",
        args={"path": "config/a.txt", "content": ""},
    )
    for line in explained["lines"]:
        mark = "*" if line["decides"] else " "
        assert f"{mark} {line['path']}:{line['line']}:{line['col']}: {line['words']}" in PAGE
    assert explained["decision"] == "denied"
    for role in owner("list_tool_roles", tool_id="app-builder:write_file")["roles"]:
        row = [role["role"], "yes" if role["sees"] else "no"]
        assert re.search(r" +".join(row), PAGE)
    assert list(policy_problems(root)) == []


def test_a_role_explains_only_its_own_calls_of_visible_tools(root: Path) -> None:
    (root / "covalt.yaml").write_text(block("yaml covalt.yaml"))
    agent = Operations(root, "agent")

    assert agent("explain_policy", tool_id="app-builder:write_file")["role"] == "agent"
    assert agent.error("explain_policy", tool_id="app-builder:run_command").code == "unknown_tool"
    assert (
        agent.error("explain_policy", tool_id="app-builder:write_file", role="owner").code
        == "forbidden"
    )
    assert agent.error("list_tool_roles", tool_id="app-builder:write_file").code == "forbidden"


def test_without_arguments_all_calls_are_explained(root: Path) -> None:
    (root / "covalt.yaml").write_text(block("yaml covalt.yaml"))
    owner = Operations(root)
    written = owner("explain_policy", tool_id="app-builder:write_file", role="agent")
    hidden = owner("explain_policy", tool_id="app-builder:run_command", role="agent")

    assert (written["decision"], hidden["decision"]) == ("depends", "hidden")
    assert [(line["words"].split()[0], line["decides"]) for line in written["lines"]] == [
        ("role", False),
        ("deny", False),
        ("allow", False),
        ("ask", True),
    ]
    codes(root, "{pattern: 'app-builder.*', when: {args: {path: 'b*'}}, effect: allow}")
    read = Operations(root, "agent")("explain_policy", tool_id="app-builder:read_file")
    assert read["decision"] == "runs"


def test_the_lines_of_a_decision_are_in_its_order(root: Path) -> None:
    lines = (
        "{pattern: 'app-builder.*', roles: [owner], effect: allow}",
        "{pattern: 'app-builder.*', when: {annotations: {open_world: true}}, effect: deny}",
        "{pattern: 'app-builder.*', when: {args: {path: 'b*'}}, effect: deny}",
        "{pattern: '**', effect: ask}",
        "{pattern: '**', effect: deny}",
    )
    codes(root, *lines)
    answer = Operations(root, "agent")(
        "explain_policy", tool_id="app-builder:write_file", args={"path": "a", "content": ""}
    )

    assert [(line["line"], line["decides"]) for line in answer["lines"]] == [
        (4, False),
        (7, False),
        (8, False),
        (9, True),
    ]
    assert answer["decision"] == "asks"


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (["{pattern: 'app-bilder.*', effect: deny}"], [("CG409", 6)]),
        (
            [
                "{pattern: 'workspace.*', when: {annotations: {destructive: true, idempotent: true, open_world: true}}, effect: ask}"
            ],
            [("CG409", 6)],
        ),
        (
            ["{pattern: '**', effect: ask}", "{pattern: 'app-builder.*', effect: deny}"],
            [("CG410", 7)],
        ),
        (
            [
                "{pattern: 'app-builder.*', roles: [owner], effect: ask}",
                "{pattern: 'app-builder.*', effect: deny}",
            ],
            [],
        ),
        (
            [
                "{pattern: 'app-builder.*', when: {args: {path: a}}, effect: allow}",
                "{pattern: 'app-builder.*', when: {args: {path: a}}, effect: deny}",
            ],
            [],
        ),
        (
            [
                "{pattern: 'app-builder.*', when: {args: {path: a}}, effect: ask}",
                "{pattern: 'app-builder.*', when: {args: {path: a}}, effect: deny}",
            ],
            [("CG410", 7)],
        ),
        (
            ["{pattern: 'app-builder.write_file', when: {args: {pth: a}}, effect: deny}"],
            [("CG411", 6)],
        ),
        (
            [
                "{pattern: 'app-builder.write_file', when: {args: {pth: {exists: false}}}, effect: deny}"
            ],
            [("CG411", 6)],
        ),
        (
            ["{pattern: 'app-builder.write_file', when: {args: {path: {min: 3}}}, effect: allow}"],
            [("CG411", 6)],
        ),
        (
            ["{pattern: 'app-builder.write_file', when: {args: {path: 3}}, effect: allow}"],
            [("CG411", 6)],
        ),
        (
            [
                "{pattern: 'app-builder.write_file', when: {args: {path: {under: a}}}, effect: allow}"
            ],
            [],
        ),
        (
            [
                "{pattern: 'app-builder.run_command', when: {args: {command: {not: 'rm *'}}}, effect: allow}"
            ],
            [("CG218", 6)],
        ),
    ],
)
def test_a_rule_that_decides_about_nothing_is_reported(
    root: Path, rules: list[str], expected: list[tuple[str, int]]
) -> None:
    assert codes(root, *rules) == expected


def test_a_case_that_fails_is_reported_with_its_line_and_that_of_the_rule(root: Path) -> None:
    deny = "{pattern: 'app-builder.write_file', roles: [agent], effect: deny}"
    cases = "  - {role: agent, tool: 'app-builder:write_file', expect: runs}\n"
    cases += "  - {role: agnt, tool: 'app-builder:write_file', expect: runs}\n"
    cases += "  - {role: agent, tool: 'app-builder:write_fil', expect: runs}\n"

    assert codes(root, deny, cases=cases) == [("CG408", 3), ("CG408", 4), ("CG408", 5)]
    assert "covalt.yaml:6:5" in next(iter(policy_problems(root))).message
    failed = Operations(root, "owner")("validate", paths=[])["problems"]
    assert [problem["code"] for problem in failed if problem["severity"] == "error"] == [
        "CG408"
    ] * 3


def test_a_case_of_a_call_that_a_rule_allows_names_this_rule(root: Path) -> None:
    allow = "{pattern: 'app-builder.write_*', roles: [agent], effect: allow}"
    args = "args: {path: a, content: ''}"
    cases = f"  - {{role: agent, tool: 'app-builder:write_file', {args}, expect: asks}}\n"
    cases += f"  - {{role: owner, tool: 'app-builder:write_file', {args}, expect: asks}}\n"

    assert codes(root, allow, cases=cases) == [("CG408", 3), ("CG408", 4)]
    by_rule, by_none = (problem.message for problem in policy_problems(root))
    assert by_rule.endswith("runs: rule app-builder.write_* allows it (covalt.yaml:6:5)")
    assert by_none.endswith("runs: no rule applies")


def test_a_case_of_a_toolset_with_errors_leads_to_the_toolset(tmp_path: Path) -> None:
    root = make_project(tmp_path / "project")
    manifest = root / "toolsets/app-builder/toolset.yaml"
    manifest.write_text(manifest.read_text().replace("entrypoint:", "entrypont:", 1))
    cases = "  - {role: agent, tool: 'app-builder:write_file', expect: asks}\n"

    assert codes(root, "{pattern: 'workspace.read_file', effect: deny}", cases=cases) == [
        ("CG408", 3)
    ]
    (problem,) = policy_problems(root)
    assert "toolsets/app-builder/toolset.yaml has errors" in problem.message
    assert problem.hint == "covalt-git validate toolsets/app-builder"


def test_recorded_calls_that_a_revision_decides_otherwise_are_listed(root: Path) -> None:
    (root / "covalt.yaml").write_text(ROLES + "  - {pattern: '**', effect: allow}\n")
    commit_all(root)
    owner = Operations(root, "owner")
    owner("create_chat", chat_id="history")
    for path in ("a.txt", "b.txt"):
        args = {"path": path, "content": "x"}
        owner("call_tool", chat_id="history", tool_id="workspace:write_file", args=args)
    rule = "{pattern: 'workspace.write_file', when: {args: {path: 'a*'}}, effect: deny}"
    (root / "covalt.yaml").write_text(ROLES + f"  - {rule}\n")

    compared = owner("compare_policy", history=10, role="owner")
    (changed,) = compared["changed"]
    assert (changed["revision"], changed["files"], compared["calls"]) == ("runs", "denied", 2)
    assert owner("compare_policy", history=1, role="owner")["changed"] == []

    # Of any role: records do not have it.  The chat's calls of hidden tools are not counted.
    (root / "policy_tests.yaml").unlink(missing_ok=True)
    rules = [rule, rule.replace("a*", "c*"), rule.replace("deny", "deny, roles: [agent]")]
    (root / "covalt.yaml").write_text(ROLES + "".join(f"  - {line}\n" for line in rules))
    tested = owner("run_policy_tests")
    assert [(line["line"], line["calls"]) for line in tested["unreached"]] == [
        (6, 1),
        (7, 0),
        (8, 0),
    ]
    assert (tested["cases"], tested["calls"]) == (0, 2)


@pytest.mark.parametrize(
    ("make", "code"), [("link", "CG404"), ("folder", "CG101"), ("pipe", "CG101")]
)
def test_cases_that_are_no_file_are_an_error(root: Path, make: str, code: str) -> None:
    assert codes(root, "{pattern: '**', effect: ask}") == []
    file = root / "policy_tests.yaml"
    file.unlink()
    if make == "link":
        file.symlink_to("/etc/hostname")
    elif make == "folder":
        file.mkdir()
    else:
        os.mkfifo(file)
    try:
        (problem,) = Operations(root, "owner")("run_policy_tests")["problems"]
        validated = Operations(root, "owner")("validate", paths=[])["problems"]
    finally:
        file.rmdir() if make == "folder" else file.unlink()

    assert (problem["code"], problem["path"]) == (code, "policy_tests.yaml")
    assert code in {one["code"] for one in validated}


@pytest.mark.rest
def test_many_rules_are_compared_in_a_time_that_grows_with_their_number(root: Path) -> None:
    def work(count: int) -> int:
        rule = "{{pattern: '**', when: {{args: {{path: 'a{0}', content: x}}}}, effect: ask}}"
        rules = [rule.format(number) for number in range(count)]
        (root / "covalt.yaml").write_text(ROLES + "".join(f"  - {line}\n" for line in rules))
        config, tools = config_reading(root), ProjectTools(root)
        problems: list[object] = []
        lines = work_of(lambda: problems.extend(rule_problems(config, tools)))
        assert problems == []
        return lines

    work(1)  # what is imported and read once
    # Without a comparison of each rule with each earlier one it is 3.97.
    assert work(200) < 4.2 * work(50)


def test_a_revision_without_the_role_is_named(root: Path) -> None:
    (root / "covalt.yaml").write_text("version: 1\n")
    commit_all(root)
    (root / "covalt.yaml").write_text("version: 1\nroles: {agent: {}, owner: {admin: true}}\n")

    error = Operations(root, "owner").error("compare_policy", role="agent")
    assert error.message == "no role 'agent' in covalt.yaml of HEAD"
