"""Agent tokens: stored as digests in private files, and revoked at once."""

import json
import stat
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from covalt_git.credentials import agent_tokens
from covalt_git.credentials.agent_tokens import NOTES, AgentTokenError, AgentTokens
from covalt_git.credentials.leaks import credentials
from covalt_git.errors import UnknownNameError
from covalt_git.workspaces.registry import Chats
from covalt_git.workspaces.server_notes import notes_of
from tests.workspaces.nodes import two_nodes

ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


@pytest.fixture
def tokens(tmp_path: Path) -> AgentTokens:
    return AgentTokens(tmp_path)


def file_of(root: Path, name: str) -> Path:
    return root / "data/tokens" / f"{name}.json"


def test_a_token_is_found_by_its_text_and_stored_as_its_digest(
    tokens: AgentTokens, tmp_path: Path
) -> None:
    made, text = tokens.new("cursor", "reader", chat=("c1", "2026-11-20T17:24:00Z"))

    assert tokens.find(text) == made
    assert [one.value for one in credentials(f"Authorization: Bearer {text}")] == [text]
    assert (made.agent, made.role, made.chat) == ("agent:cursor", "reader", "c1")
    assert made.expires_at is None
    file = file_of(tmp_path, "cursor")
    assert text not in file.read_text()
    assert text[4:] not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert [one.name for one in file.parent.iterdir()] == ["cursor.json"]


def test_no_forged_text_is_a_token(tokens: AgentTokens) -> None:
    made, text = tokens.new("cursor", "reader")
    forged = {
        *("", "cvg_", made.id, made.name, made.digest, made.digest.partition(":")[2]),
        *(text.upper(), text.lower(), text.swapcase(), text.removeprefix("cvg_")),
        *(text.replace("cvg_", "ghp_"), f"{text}=", f"{text}\n", f"{text}\0"),
        *(f"{text} {text}", f"{text},{text}", "cvg_" + text[:3:-1], "cvg_" + "\u017f" * 43),
        *(text[:end] for end in range(len(text))),
        *(text + letter for letter in ALPHABET),
        *(
            text[:at] + ALPHABET[ALPHABET.find(text[at]) - 7] + text[at + 1 :]
            for at in range(len(text))
        ),
    } - {text}

    assert len(forged) > 150
    assert [one for one in forged if tokens.find(one) is not None] == []
    assert tokens.find(text) == made


def test_a_token_expires(tokens: AgentTokens) -> None:
    _, over = tokens.new("over", "reader", lasts=timedelta(0))
    _, good = tokens.new("good", "reader", lasts=timedelta(minutes=1))

    assert tokens.find(over) is None
    assert tokens.find(good) is not None
    assert [(one.name, one.is_expired) for one in tokens.all()] == [("good", False), ("over", True)]


@pytest.mark.parametrize("by", ["name", "id"])
def test_a_token_is_revoked_by_its_name_or_id(tokens: AgentTokens, by: str) -> None:
    made, text = tokens.new("cursor", "reader")
    assert tokens.find(text)

    assert tokens.revoke(getattr(made, by)) == made

    assert tokens.find(text) is None
    assert tokens.all() == []
    with pytest.raises(UnknownNameError, match="no token 'cursor'"):
        tokens.revoke("cursor")


def add_a_key(file: Path) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), "admin": True}))


SPOIL: dict[str, Callable[[Path], object]] = {
    "readable by others": lambda file: file.chmod(0o644),
    "another name": lambda file: file.rename(file.with_name("other.json")),
    "another key": add_a_key,
    "cut": lambda file: file.write_bytes(file.read_bytes()[:-9]),
    "deleted": lambda file: file.unlink(),
}


@pytest.mark.parametrize("spoil", SPOIL)
def test_an_unusable_file_is_no_token(tokens: AgentTokens, tmp_path: Path, spoil: str) -> None:
    _, text = tokens.new("cursor", "reader")
    other, others = tokens.new("fine", "reader")
    assert tokens.find(text)

    SPOIL[spoil](file_of(tmp_path, "cursor"))

    assert tokens.find(text) is None
    assert AgentTokens(tmp_path).find(text) is None
    assert tokens.find(others) == other
    if spoil != "deleted":
        with pytest.raises(AgentTokenError):
            tokens.all()


def test_nodes_of_a_git_server_share_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_tokens, "FRESH_S", 0.0)
    with two_nodes() as nodes:
        a, b = (
            AgentTokens(chats.folder.parent.parent, partial(notes_of, chats.config, NOTES))
            for chats in nodes
        )
        stored, text = a.new("writer", "agent")
        assert not [*nodes[0].folder.parent.glob("tokens/*")]
        assert (a.find(text), b.find(text), b.all()) == (stored, stored, [stored])
        assert text.encode() not in b"".join(notes_content(nodes[0]))
        with pytest.raises(AgentTokenError, match="already exists"):
            b.new("writer", "owner")

        assert b.revoke("writer") == stored
        assert (a.find(text), b.find(text)) == (None, None)
        # A new token of the same agent is another one.
        a.new("writer", "agent")
        assert b.find(text) is None


def notes_content(chats: Chats) -> list[bytes]:
    notes = notes_of(chats.config, NOTES)
    assert notes is not None
    return [*notes.contents(notes.ids()).values()]
