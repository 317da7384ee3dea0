"""Under a role, nothing on the command line tells of a tool that the role may not call."""

from __future__ import annotations

from pathlib import Path

import pytest

from covalt_git.toolsets.new_project import create_project
from tests import command

ROLES = """\
version: 1
roles:
  reader: {allow: ["app-builder.read_file", "app-builder.list_*"]}
  boss: {admin: true}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    create_project(tmp_path)
    (tmp_path / "covalt.yaml").write_text(ROLES, encoding="utf-8")
    return tmp_path


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in which a call of a tool that readers may not see waits for a person."""
    root = tmp_path_factory.mktemp("planned")
    create_project(root)
    (root / "covalt.yaml").write_text(ROLES, encoding="utf-8")
    covalt(root, "boss", "chat", "new", "--id", "c1")
    covalt(root, "boss", "call", "c1", "app-builder:run_command", "--arg", "command=secret-plan")
    assert "secret-plan" in covalt(root, "boss", "approval", "list")
    return root


def covalt(root: Path, role: str, *args: str) -> str:
    done = command.run("-C", str(root), "--role", role, *args)
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(["tool", "list"], id="tool-list"),
        pytest.param(["tool", "list", "--json"], id="tool-list-json"),
        pytest.param(["tool", "search", "run", "a", "command"], id="tool-search"),
        pytest.param(["tool", "search", "comand", "--json"], id="tool-search-json"),
        pytest.param(["tool", "show", "app-builder:run_comand"], id="tool-show-a-typo"),
        pytest.param(["call", "c1", "app-builder:run_comand"], id="call-a-typo"),
        pytest.param(["toolset", "list"], id="toolset-list"),
        pytest.param(["toolset", "show", "app-builder"], id="toolset-show"),
        pytest.param(["toolset", "show", "app-builder", "--json"], id="toolset-show-json"),
        pytest.param(["toolset", "show", "data-lab"], id="toolset-that-is-hidden"),
        pytest.param(["bundle", "export", "app-builder", "-o", "-"], id="bundle-export"),
        pytest.param(["bundle", "export", "data-lab", "-o", "-"], id="bundle-of-what-is-hidden"),
        pytest.param(["approval", "list", "--all"], id="approval-list"),
        pytest.param(["approval", "list", "--all", "--json"], id="approval-list-json"),
        pytest.param(["approval", "show", "0000"], id="approval-show"),
    ],
)
def test_a_hidden_tool_is_nowhere(planned: Path, args: list[str]) -> None:
    said = covalt(planned, "reader", *args)

    assert "run_command" not in said.replace("run_comand", "")
    assert "secret-plan" not in said
    assert "summarize" not in said


def test_an_unknown_and_a_hidden_toolset_read_alike(root: Path) -> None:
    hidden = covalt(root, "reader", "toolset", "show", "data-lab")
    unknown = covalt(root, "reader", "toolset", "show", "data-lob")

    assert hidden.replace("data-lab", "X") == unknown.replace("data-lob", "X")


def test_a_role_sees_what_it_may_call(root: Path) -> None:
    said = covalt(root, "reader", "toolset", "show", "app-builder")

    assert "tools: read_file, list_files\n" in said
    assert "app-builder:read_file" in covalt(root, "reader", "tool", "list")


def test_prompts_and_resources_are_hidden_by_patterns_as_tools_are(root: Path) -> None:
    config = root / "covalt.yaml"
    roles = """
  some: {allow: [data-lab.**], deny: [data-lab.explore]}
  every: {allow: [data-lab.**]}
  only: {allow: [data-lab.explore]}
"""
    config.write_text(config.read_text().replace("\nroles:\n", f"\nroles:{roles}"))

    some, every, only = (
        covalt(root, role, "toolset", "show", "data-lab") for role in ("some", "every", "only")
    )

    assert "prompts: explore\nresources: about_weather\n" in every
    assert "explore" not in some
    assert "about_weather" not in some
    assert "data-lab 1.0.0" in only
    assert "summarize" not in only


@pytest.mark.parametrize("switch", ["enable", "disable"])
def test_only_who_may_do_everything_switches_toolsets(root: Path, switch: str) -> None:
    refused = "your role may not switch toolsets\n  hint: a role with admin: true may\n"

    assert covalt(root, "reader", "toolset", switch, "app-builder") == refused
    assert covalt(root, "reader", "toolset", switch, "no-such") == refused
    assert not (root / "toolsets/state").exists()
    assert covalt(root, "boss", "toolset", "disable", "app-builder") == "app-builder is off\n"


def test_a_search_is_of_the_role_that_is_named_with_it(root: Path) -> None:
    assert "run_command" in covalt(root, "boss", "tool", "search", "run")
    assert "run_command" not in covalt(root, "boss", "tool", "search", "run", "--role", "reader")
    assert "read_file" in covalt(root, "boss", "tool", "search", "read file", "--role", "reader")
