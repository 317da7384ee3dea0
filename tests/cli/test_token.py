"""``covalt-git token``: made by who may do everything, told once, and taken back."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from covalt_git.credentials.agent_tokens import AgentTokens
from covalt_git.project import Project
from tests.command import run
from tests.mcp_client import make_project

Covalt = Callable[..., tuple[int, str]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project")


def test_a_new_token_is_all_that_is_printed(root: Path) -> None:
    done = run("-C", str(root), "token", "new", "--role", "reader", "--name", "cursor")

    assert done.returncode == 0, done.stderr
    text = done.stdout.removesuffix("\n")
    found = AgentTokens(root).find(text)
    assert found is not None
    assert (found.name, found.role, found.chat) == ("cursor", "reader", None)
    assert "cursor acts under the role reader in chats of its own, until 2" in done.stderr
    assert text not in done.stderr


def test_json_tells_the_token_once_and_its_digest_never(root: Path, covalt: Covalt) -> None:
    Project.open(root).chats.new("c1").store.close()
    told = json.loads(
        covalt("token", "new", "--role", "reader", "--chat", "c1", "--expires", "30d", "--json")[1]
    )
    (listed,) = json.loads(covalt("token", "list", "--json")[1])["tokens"]
    lines = covalt("token", "list")[1]

    made, ends = (datetime.fromisoformat(told[key]) for key in ("created_at", "expires_at"))
    assert ends - made == timedelta(days=30)
    assert told["name"].startswith("reader-")
    assert listed == {key: value for key, value in told.items() if key != "token"}
    assert "digest" not in told
    assert told["token"] not in lines
    assert lines.splitlines()[1].split()[:3] == [told["name"], "reader", "c1"]


def test_a_token_is_taken_back_by_its_name_or_id(root: Path, covalt: Covalt) -> None:
    told = [
        json.loads(covalt("token", "new", "--role", "reader", "--name", name, "--json")[1])
        for name in ("first", "second")
    ]

    assert covalt("token", "revoke", "first") == (0, "first opens nothing any more\n")
    assert covalt("token", "revoke", told[1]["id"], "--json")[0] == 0
    assert covalt("token", "list")[1] == "there is no token: covalt-git token new --role ROLE\n"
    code, said = covalt("token", "revoke", "first")
    assert (code, "no token 'first'" in said) == (1, True)
    assert [AgentTokens(root).find(one["token"]) for one in told] == [None, None]


@pytest.mark.parametrize("args", [("new", "--role", "reader"), ("list",), ("revoke", "cursor")])
def test_only_who_may_do_everything_lets_agents_in(
    root: Path, covalt: Covalt, args: tuple[str]
) -> None:
    AgentTokens(root).new("cursor", "reader")
    (code, said) = covalt("--role", "reader", "token", *args)

    assert (code, "your role may not let agents in" in said) == (1, True)
    assert [one.name for one in AgentTokens(root).all()] == ["cursor"]


@pytest.mark.parametrize(
    ("args", "code", "told"),
    [
        (["--role", "raeder"], 1, "no role 'raeder'\n  hint: did you mean 'reader'?"),
        (["--role", "reader", "--chat", "c9"], 1, "no chat 'c9'"),
        (["--role", "reader", "--name", "A b"], 1, "cannot be a token id"),
        (["--role", "reader", "--expires", "30"], 2, "write 30d, 12h, 45m or never"),
        (["--role", "reader", "--expires", "99999d"], 2, "at most 3650d"),
        ([], 2, "'--role'"),
    ],
)
def test_what_no_token_can_be_made_of_is_told(
    root: Path, covalt: Covalt, args: list[str], code: int, told: str
) -> None:
    ended, said = covalt("token", "new", *args)

    assert (ended, told in said) == (code, True), said
    assert AgentTokens(root).all() == []


def test_where_there_are_no_roles_the_line_for_one_is_told(root: Path, covalt: Covalt) -> None:
    (root / "covalt.yaml").write_text("version: 1\n")
    code, said = covalt("token", "new", "--role", "agent")

    assert code == 1
    assert "covalt.yaml defines no role that an agent could act under" in said
    assert "hint: write one there: roles:" in said


def test_an_expired_token_is_listed_as_one(root: Path, covalt: Covalt) -> None:
    AgentTokens(root).new("old", "reader", lasts=timedelta(0))
    covalt("token", "new", "--role", "reader", "--name", "ever", "--expires", "never")

    ever, old = covalt("token", "list")[1].splitlines()[1:]
    assert ever.endswith("never")
    assert old.endswith("Z, expired")
