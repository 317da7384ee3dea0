"""Under a role, no command tells anything of a tool that the role may not call."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.api_client import configure, make_project
from tests.command import run

ROLES = """\
roles:
  reader: {allow: ["app-builder.read_file", "app-builder.list_*"]}
  some: {allow: [data-lab.**], deny: [data-lab.explore]}
  every: {allow: [data-lab.**]}
  owner: {admin: true}
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in which a call waits for approval of a tool that readers may not see."""
    root = make_project(tmp_path_factory.mktemp("roles") / "project")
    configure(root, ROLES)
    as_role(root, "owner", "chat new --id c1")
    as_role(root, "owner", "call c1 app-builder:run_command --arg command=secret-plan")
    assert "secret-plan" in as_role(root, "owner", "approval list")
    return root


def as_role(root: Path, role: str, command: str) -> str:
    done = run("--role", role, *command.split(), cwd=root)
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    "command",
    [
        "tool list",
        "tool list --json",
        "tool search run a command",
        "tool search comand --json",
        "tool show app-builder:run_comand",
        "call c1 app-builder:run_comand",
        "toolset list",
        "toolset list --json",
        "toolset show app-builder",
        "toolset show app-builder --json",
        "toolset show data-lab",
        "authority show",
        "authority show --json",
        "bundle export app-builder -o -",
        "bundle export data-lab -o -",
        "approval list --all",
        "approval list --all --json",
        "approval show 0000",
    ],
)
def test_a_hidden_tool_is_nowhere(root: Path, command: str) -> None:
    shown = as_role(root, "reader", command)

    for hidden in ("run_command", "secret-plan", "summarize"):
        assert hidden not in shown.replace("run_comand", "")
    assert "Traceback" not in shown


@pytest.mark.parametrize("command", ["toolset show data-lab", "tool show data-lab:summarize"])
def test_hidden_and_unknown_names_have_the_same_error(root: Path, command: str) -> None:
    unknown = command.replace("data-lab", "data-lob")

    assert as_role(root, "reader", command) == as_role(root, "reader", unknown).replace(
        "lob", "lab"
    )


def test_prompts_and_resources_are_hidden_by_patterns_too(root: Path) -> None:
    some, every = (as_role(root, role, "toolset show data-lab") for role in ("some", "every"))

    assert "explore" in every
    assert "about_weather" in every
    assert "explore" not in some
    assert "about_weather" not in some


def test_a_search_is_of_the_role_that_is_named_with_it(root: Path) -> None:
    def found(words: str) -> bool:
        return "app-builder:" in as_role(root, "owner", f"tool search {words}")

    assert found("run command")
    assert not found("run command --role reader --limit 1")
    assert found("read file --role reader")
