"""Agent tokens: made once, kept as a digest that is nobody else's to read, and gone at once."""

from __future__ import annotations

import json
import multiprocessing
import stat
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from covalt_git.credentials.agent_tokens import AgentTokenError, AgentTokens
from covalt_git.credentials.leaks import credentials
from covalt_git.errors import UnknownNameError
from covalt_git.names import BadNameError

ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


@pytest.fixture
def tokens(tmp_path: Path) -> AgentTokens:
    return AgentTokens(tmp_path)


def file_of(root: Path, name: str) -> Path:
    return root / "data/tokens" / f"{name}.json"


def test_a_token_is_found_by_its_text_and_kept_as_its_digest(
    tokens: AgentTokens, tmp_path: Path
) -> None:
    made, text = tokens.new("cursor", "reader", chat=("c1", "2026-11-20T17:24:00Z"))

    assert tokens.find(text) == made
    assert (made.agent, made.role, made.chat, made.expires_at) == (
        "agent:cursor",
        "reader",
        "c1",
        None,
    )
    file = file_of(tmp_path, "cursor")
    assert text not in file.read_text()
    assert text[4:] not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert [one.name for one in file.parent.iterdir()] == ["cursor.json"]


def test_its_text_is_known_for_a_credential_wherever_it_is(tokens: AgentTokens) -> None:
    for number in range(20):
        _, text = tokens.new(f"t{number}", "reader")
        (found,) = credentials(f'headers: {{"Authorization": "Bearer {text}"}}')
        assert (found.value, found.certain) == (text, True)


def test_what_is_like_a_token_is_none(tokens: AgentTokens) -> None:
    made, text = tokens.new("cursor", "reader")
    forged = {
        "",
        "cvg_",
        made.id,
        made.name,
        made.digest,
        made.digest.partition(":")[2],
        text.upper(),
        text.lower(),
        text.swapcase(),
        text.removeprefix("cvg_"),
        text.replace("cvg_", "ghp_"),
        f"{text}=",
        f"{text}\n",
        f"{text}\0",
        f"{text} {text}",
        f"{text},{text}",
        "cvg_" + text[:3:-1],
        "cvg_" + "\u017f" * 43,
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


def test_a_token_is_good_for_its_time_only(tokens: AgentTokens) -> None:
    _, over = tokens.new("over", "reader", lasts=timedelta(0))
    _, good = tokens.new("good", "reader", lasts=timedelta(minutes=1))

    assert tokens.find(over) is None
    assert tokens.find(good) is not None
    assert [(one.name, one.is_expired) for one in tokens.all()] == [("good", False), ("over", True)]


@pytest.mark.parametrize("by", ["name", "id"])
def test_a_revoked_token_lets_nobody_in(tokens: AgentTokens, by: str) -> None:
    made, text = tokens.new("cursor", "reader")
    assert tokens.find(text)

    assert tokens.revoke(getattr(made, by)) == made

    assert tokens.find(text) is None
    assert tokens.all() == []
    with pytest.raises(UnknownNameError, match="no token 'cursor'"):
        tokens.revoke("cursor")


def test_a_name_is_one_tokens_until_it_is_revoked(tokens: AgentTokens, tmp_path: Path) -> None:
    _, first = tokens.new("cursor", "reader")
    with pytest.raises(AgentTokenError, match="there is a token 'cursor'"):
        tokens.new("cursor", "writer")
    with pytest.raises(BadNameError):
        tokens.new("../cursor", "writer")
    tokens.revoke("cursor")
    again, second = tokens.new("cursor", "writer")

    assert tokens.find(first) is None
    assert tokens.find(second) == again
    assert [one.name for one in file_of(tmp_path, "x").parent.iterdir()] == ["cursor.json"]


def test_of_many_who_make_one_name_one_has_it(tmp_path: Path) -> None:
    with multiprocessing.get_context("fork").Pool(8) as pool:
        made = pool.map(_make, [tmp_path] * 24)

    (text,) = filter(None, made)
    assert AgentTokens(tmp_path).find(text)


def _make(root: Path) -> str | None:
    try:
        return AgentTokens(root).new("cursor", "reader")[1]
    except AgentTokenError:
        return None


def _readable(file: Path) -> None:
    file.chmod(0o644)


def _other_name(file: Path) -> None:
    file.rename(file.with_name("other.json"))


def _other_key(file: Path) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), "admin": True}))


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-9])


def _gone(file: Path) -> None:
    file.unlink()


@pytest.mark.parametrize("spoil", [_readable, _other_name, _other_key, _cut, _gone])
def test_a_file_that_cannot_be_used_lets_nobody_in(
    tokens: AgentTokens, tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    _, text = tokens.new("cursor", "reader")
    other, others = tokens.new("fine", "reader")
    assert tokens.find(text)

    spoil(file_of(tmp_path, "cursor"))

    assert tokens.find(text) is None
    assert AgentTokens(tmp_path).find(text) is None
    assert tokens.find(others) == other
    if spoil is not _gone:
        with pytest.raises(AgentTokenError):
            tokens.all()


def test_a_copy_of_the_files_without_their_modes_lets_nobody_in(
    tokens: AgentTokens, tmp_path: Path
) -> None:
    """As git has them: a repository that brings tokens of its own brings none."""
    _, text = tokens.new("cursor", "reader")
    copy = file_of(tmp_path / "clone", "cursor")
    copy.parent.mkdir(parents=True)
    copy.write_bytes(file_of(tmp_path, "cursor").read_bytes())
    copy.chmod(0o644)

    assert AgentTokens(tmp_path / "clone").find(text) is None
