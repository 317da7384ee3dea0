"""Files of spent tokens: the first call has the token, and the same call may go on with it."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from covalt_git.issuers.spent_tokens import PREFIX, SpentTokenError, SpentTokens
from covalt_git.issuers.verification import SKEW_S
from covalt_git.models.access_token import AccessToken
from covalt_git.workspaces.server_notes import notes_of
from tests.workspaces.nodes import two_nodes


def test_a_token_is_spent_by_the_first_call(tmp_path: Path) -> None:
    spent = SpentTokens(tmp_path)
    token = AccessToken("i", "s", "r", "d", int(time.time()) + 60, "the-id")
    spent.spend(token, "c1", "a")
    spent.spend(token, "c1", "a", again=True)
    for chat_id, call_id, again in (("c1", "a", False), ("c1", "b", True), ("c2", "a", True)):
        with pytest.raises(SpentTokenError):
            spent.spend(token, chat_id, call_id, again=again)
    # Of an approved call only the digest of its token is stored, so it cannot spend one that was not noted.
    with pytest.raises(SpentTokenError):
        spent.spend(token._replace(jti="other", approved=True), "c1", "a", again=True)


def test_of_two_nodes_at_the_same_moment_one_spends_a_token() -> None:
    with two_nodes() as nodes:
        spent = [
            SpentTokens(chats.folder.parent.parent, notes_of(chats.config, PREFIX))
            for chats in nodes
        ]
        for number in range(3):
            token = AccessToken("i", "s", "r", "d", int(time.time()) + 60, f"id-{number}")
            start = Barrier(2)

            def spend(node: int, token: AccessToken = token, start: Barrier = start) -> str:
                start.wait()
                try:
                    # Also two attempts of one call: a request that a client sent twice is made once.
                    spent[node].spend(token, "c1", "a")
                except SpentTokenError:
                    return "refused"
                return "spent"

            with ThreadPoolExecutor(2) as threads:
                assert sorted(threads.map(spend, range(2))) == ["refused", "spent"]
            for node in spent:
                with pytest.raises(SpentTokenError):
                    node.check(token)
        # The approved call goes on at any node, with the token that it spent.
        for node in spent:
            node.spend(token._replace(approved=True), "c1", "a", again=True)
            with pytest.raises(SpentTokenError):
                node.spend(token._replace(approved=True), "c1", "b", again=True)


def test_the_note_of_an_expired_token_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    with two_nodes() as (a, _):
        notes = notes_of(a.config, PREFIX)
        assert notes is not None
        spent, end = SpentTokens(a.folder.parent.parent, notes), int(time.time()) + 60
        spent.spend(AccessToken("i", "s", "r", "d", end, "first"), "c1", "a")
        (first,) = notes.ids()
        for later, is_left in ((SKEW_S + 20, True), (SKEW_S + 40, False)):
            monkeypatch.setattr(time, "time", lambda later=later: end + later)
            token = AccessToken("i", "s", "r", "d", end + 900, f"after-{later}")
            spent.spend(token, "c1", f"after-{later}")
            assert (first in notes.ids()) == is_left


def test_the_note_of_a_node_that_has_ended_is_removed_by_another_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with two_nodes() as nodes:
        ended, other = (
            SpentTokens(chats.folder.parent.parent, notes_of(chats.config, PREFIX))
            for chats in nodes
        )
        assert other.notes is not None
        end = int(time.time()) + 60
        for number, ends in enumerate((end, end, end + 900)):
            ended.spend(AccessToken("i", "s", "r", "d", ends, f"id-{number}"), "c1", "a")
        monkeypatch.setattr(time, "time", lambda: end + SKEW_S + 40)
        other.spend(AccessToken("i", "s", "r", "d", end + 900, "own"), "c1", "b")
        assert len(other.notes.ids()) == 2
