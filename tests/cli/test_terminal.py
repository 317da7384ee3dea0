"""Commands at a terminal: progress that moves, and questions to the user."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from covalt_git.project import Project
from tests.api_client import make_project
from tests.command import REPOSITORY, Terminal, run
from tests.mcp_client import add_toolset

QUIZ = f"""\
id: quiz
name: Quiz
version: "1"
tools:
  - {{id: steps, entrypoint: tools.quiz:steps}}
  - {{id: order, entrypoint: tools.quiz:order}}
  - {{id: page, entrypoint: tools.quiz:page}}
  - {{id: short, entrypoint: tools.quiz:page, limits: {{answer_s: 0.5}}}}
mcp_servers:
  - id: disk
    command: {sys.executable}
    args: [{REPOSITORY}/fixtures/servers/changing.py, {REPOSITORY}/fixtures/servers/tools.json]
"""
TOOLS = """\
from typing import Literal, Optional

from pydantic import BaseModel, Field

from covalt_toolset import get_context


class Order(BaseModel):
    name: str = Field(min_length=2, description="whose it is")
    size: int = Field(3, ge=1)
    gift: bool
    color: Literal["red", "blue"]
    extras: list[Literal["a", "b"]] = []
    note: Optional[str] = None


def order() -> dict:
    answer = get_context().elicit("Your \\x1b[2J order", Order)
    return answer.content.model_dump() if answer.accepted else {"did": answer.action}


def page() -> str:
    return get_context().elicit_url("Sign in", "https://example.com/in").action


def steps() -> str:
    context = get_context()
    context.progress(1, 4, "first")
    context.log("careful \\x1b[2J", "warning")
    context.progress(4, 4)
    return "done"
"""
FIRST = "[#####...............] 1/4 first"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose chat c1 is called in by all tests."""
    root = make_project(tmp_path_factory.mktemp("terminal") / "project")
    add_toolset(root, "quiz", QUIZ, TOOLS)
    Project.open(root).chats.new("c1").store.close()
    return root


def call(root: Path, tool: str, *args: str, **environment: str) -> Terminal:
    env = os.environ | environment
    return Terminal("call", "c1", f"quiz:{tool}", *args, cwd=root, env=env)


def recorded(root: Path) -> Any:
    """Return the record of the chat's last call."""
    with Project.open(root).chats.open("c1") as chat:
        return chat.manifest(chat.head() or "").record.call


# --- progress -----------------------------------------------------------------------------------


def test_progress_moves_below_the_logs(root: Path) -> None:
    shown = call(root, "steps", "--json", "--follow", NO_COLOR="").end()
    log = "\x1b[33mwarning: careful \\u{1b}[2J\x1b[0m\r\n"

    before, _, after = shown.partition(log)
    assert f"\r\x1b[K\x1b[2m{FIRST}\x1b[0m" in before
    assert after.startswith(f"\r\x1b[K\x1b[2m{FIRST}\x1b[0m")
    assert "\r\x1b[K{" in after  # it is gone where the result is printed


# --- questions ----------------------------------------------------------------------------------


def test_a_user_fills_in_a_form(root: Path) -> None:
    user = call(root, "order", NO_COLOR="1")
    user.until("Your \\u{1b}[2J order\r\n")  # not bold
    user.answers("answer it?", "")
    user.answers("name (whose it is):", "Ada")
    user.answers("size [a whole number, may be empty] [3]:", "many")
    user.until("'many' is not a whole number")
    user.answers("size", "5")
    user.answers("gift [y or n]:", "y")
    user.answers("color:", "green")
    user.until("'green' is not one of red, blue")
    user.answers("color", "blue")
    user.answers("extras", "a, b")
    user.answers("note [may be empty]:", "")
    user.end()

    assert user.exit_code == 0
    assert recorded(root).result == {
        "name": "Ada",
        "size": 5,
        "gift": True,
        "color": "blue",
        "extras": ["a", "b"],
        "note": None,
    }
    assert [one.answer for one in recorded(root).asked] == ["accept"]


@pytest.mark.parametrize(
    ("typed", "action"),
    [
        ("y", "accept"),
        ("n", "decline"),
        pytest.param("\x04", "cancel", marks=pytest.mark.rest),
    ],
)
def test_a_user_agrees_to_a_url_or_not(root: Path, typed: str, action: str) -> None:
    user = call(root, "page")
    user.until("https://example.com/in")
    user.answers("agree?", typed)
    user.end()

    assert recorded(root).result == action


def test_a_question_without_an_answer_ends_the_call(root: Path) -> None:
    user = call(root, "short")
    user.until("agree?")

    assert "not_answered" in user.end()
    assert user.exit_code == 1


def test_deleting_a_chat_asks_for_confirmation(root: Path) -> None:
    Project.open(root).chats.new("c2").store.close()
    for typed, code in (("n", 130), ("y", 0)):
        user = Terminal("chat", "delete", "c2", cwd=root)
        user.answers("Delete c2 for good", typed)
        user.end()

        assert user.exit_code == code
        assert (root / "data/chats/c2").exists() == (typed == "n")


@pytest.mark.rest
def test_a_replay_that_needs_approval_asks_only_without_json(root: Path) -> None:
    assert run("call", "c1", "quiz:steps", cwd=root).returncode == 0
    with (root / "covalt.yaml").open("a", encoding="utf-8") as config:
        config.write('approvals: [{pattern: "**", require: true}]\n')

    user = Terminal("chat", "replay", "c1", "HEAD", "--json", cwd=root)

    assert '"asks_first"' in user.end()
    assert user.exit_code == 4
    user = Terminal("chat", "replay", "c1", "HEAD", cwd=root)
    user.answers("run it again? [y/N]: ", "y")
    assert "the same result" in user.end()


def test_a_replay_asks_again_if_another_call_is_named_meanwhile(root: Path) -> None:
    config = root / "covalt.yaml"
    free = config.read_text().partition("approvals:")[0]
    requiring = free + 'approvals: [{pattern: "**", require: true}]\n'
    config.write_text(free)
    assert run("call", "c1", "quiz:steps", cwd=root).returncode == 0
    config.write_text(requiring)
    user = Terminal("chat", "replay", "c1", "HEAD", cwd=root)
    user.until("arguments: ")
    config.write_text(free)
    assert run("call", "c1", "quiz:steps", cwd=root).returncode == 0
    config.write_text(requiring)

    user.answers("run it again? [y/N]: ", "y")

    user.until("the call or the code has changed since the question")
    user.answers("run it again? [y/N]: ", "n")
    user.end()
    assert user.exit_code == 4


def test_the_secret_command_is_shown_before_it_is_allowed(root: Path) -> None:
    config = (root / "covalt.yaml").read_text()
    with (root / "covalt.yaml").open("a", encoding="utf-8") as file:
        file.write("secret_command: [/bin/echo, 'work/{name}']\n")
    for typed, end in (("n", "it is not allowed"), ("y", "allowed to run")):
        user = Terminal("secret", "allow", cwd=root)
        user.until("  /bin/echo 'work/{name}'")
        user.answers("allow it? [y/N]: ", typed)
        assert end in user.end()
    run("secret", "forbid", cwd=root)
    (root / "covalt.yaml").write_text(config)


def test_declined_grants_are_not_added(root: Path) -> None:
    user = Terminal("grant", "add", "quiz", "--requested", cwd=root)
    user.answers("grant this? [y/N]: ", "n")

    assert "nothing was granted" in user.end()
    assert user.exit_code == 1
    assert run("grant", "list", "quiz", cwd=root).stdout.startswith("nothing is granted to quiz\n")


def test_accepting_the_tools_of_a_server_asks_for_confirmation(root: Path) -> None:
    run("grant", "add", "quiz", "process", "disk", "--no-terminal", "test", cwd=root)
    assert (
        "accept this?" not in Terminal("source", "refresh", "quiz/disk", "--check", cwd=root).end()
    )
    for command, typed, code in (("refresh", "n", 1), ("accept", "n", 1), ("accept", "y", 0)):
        user = Terminal("source", command, "quiz/disk", cwd=root)
        user.until("is new")
        user.answers("accept this? [y/N]: ", typed)
        user.end()

        assert user.exit_code == code
        (row,) = run("source", "list", "quiz/disk", cwd=root).stdout.splitlines()[1:]
        assert (row.split()[2] == "-") == (typed == "n")


@pytest.mark.parametrize("answer", ["y", "n"])
def test_a_user_leaves_out_a_wrong_server_of_a_file(tmp_path: Path, answer: str) -> None:
    servers = '{"a": {"command": "b"},\n "c": 5}'
    (tmp_path / "bad.json").write_text(f'{{"mcpServers": {servers}}}')
    user = Terminal("convert", "bad.json", "--to", "toolset", "-o", "made", cwd=tmp_path)
    user.until("bad.json:2:7: CG203")
    user.answers("leave out /mcpServers/c? [y/N]:", answer)

    user.end()
    assert user.exit_code == (0 if answer == "y" else 130)
    assert (tmp_path / "made").exists() == (answer == "y")


@pytest.mark.rest
@pytest.mark.slow
def test_a_user_grants_what_a_server_needs_one_by_one(root: Path) -> None:
    folder = root / "toolsets/needy"
    folder.mkdir()
    (folder / "needing.py").write_text((REPOSITORY / "fixtures/servers/needing.py").read_text())
    (folder / "toolset.yaml").write_text(
        "id: needy\nname: Needy\nversion: '1'\n"
        "mcp_servers: [{id: disk, command: python3, args: [needing.py]}]\n"
    )
    for name in ("first", "second"):
        (root.parent / name).mkdir()
        (root.parent / name / "a.csv").write_text("1")
    run("grant", "add", "needy", "server", "disk", "--no-terminal", "test", cwd=root)
    calls = [
        word
        for name in ("first", "second")
        for word in ("--call", "read", f'{{"path": "{root.parent / name / "a.csv"}"}}')
    ]
    user = Terminal("source", "observe", "needy/disk", *calls, cwd=root)
    user.answers("[y/N]: ", "n")
    user.answers("[y/N]: ", "y")
    user.until("its MCP server disk: python3")  # all of it, before the last question
    user.answers("grant this? [y/N]: ", "y")
    user.end()

    listed = run("grant", "list", "needy", "--json", cwd=root).stdout
    (row,) = json.loads(listed)["grants"]
    assert row["grant"]["sandbox"]["folders"] == [str(root.parent / "second")]


def test_a_program_that_changes_during_the_questions_is_not_granted(root: Path) -> None:
    folder = root / "toolsets/asking"
    folder.mkdir()
    text = (REPOSITORY / "fixtures/servers/needing.py").read_text()
    (folder / "needing.py").write_text(text)
    (folder / "toolset.yaml").write_text(
        "id: asking\nname: Asking\nversion: '1'\n"
        "mcp_servers: [{id: disk, command: python3, args: [needing.py]}]\n"
    )
    (root.parent / "a.csv").write_text("1")
    call = ("--call", "read", f'{{"path": "{root.parent / "a.csv"}"}}')
    run("grant", "add", "asking", "server", "disk", "--no-terminal", "test", cwd=root)
    user = Terminal("source", "observe", "asking/disk", *call, cwd=root)
    user.until("grant the path")
    (folder / "needing.py").write_text(text + "# a pull\n")
    user.answers("[y/N]: ", "y")
    assert "a file of 'asking' has changed since your review" in user.end()
    assert "folder" not in run("grant", "list", "asking", cwd=root).stdout
