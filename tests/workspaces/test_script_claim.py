"""Claims of scripts: one node runs a script, and a node that was paused for too long makes no further call."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from covalt_git.workspaces import script_claim
from covalt_git.workspaces.lease import SKEW_S
from covalt_git.workspaces.registry import Chats
from covalt_git.workspaces.script_claim import ScriptBusyError, check, claimed, is_claimed
from tests.workspaces.nodes import LEASE_S, two_nodes


@pytest.fixture
def nodes() -> Iterator[tuple[Chats, Chats]]:
    with two_nodes() as pair:
        pair[0].new("c1").close()
        yield pair


def test_one_node_runs_a_script(nodes: tuple[Chats, Chats]) -> None:
    with nodes[0].open("c1") as chat, nodes[1].open("c1") as other:
        with claimed(chat, "s1", wait=False):
            assert is_claimed(other, "s1")
            assert not is_claimed(chat, "s1")
            check(chat, "s1")
            with pytest.raises(ScriptBusyError), claimed(other, "s1", wait=False):
                pass
            with claimed(other, "s2", wait=False):
                pass
        assert not is_claimed(other, "s1")
        # Its process is killed, and the next one of this node continues.
        killed = script_claim._claim(chat, "s1")
        assert killed is not None
        assert killed.take()
        with claimed(chat, "s1", wait=False):
            assert not killed.renew()
        with claimed(other, "s1", wait=False):
            pass


def test_a_paused_node_makes_no_call_after_another_one_may_have_taken_over(
    nodes: tuple[Chats, Chats], monkeypatch: pytest.MonkeyPatch
) -> None:
    now, clocks = script_claim.now, script_claim.clocks
    with (
        nodes[0].open("c1") as chat,
        nodes[1].open("c1") as other,
        claimed(chat, "s1", wait=False),
    ):
        later = LEASE_S + SKEW_S - 2
        monkeypatch.setattr(script_claim, "now", lambda: now() + timedelta(seconds=later))
        # A difference of the clocks takes nothing away.
        with pytest.raises(ScriptBusyError), claimed(other, "s1", wait=False):
            pass
        # By then, the paused node knows that its claim has ended, also if one of its clocks stood still.
        for number in range(2):

            def paused(number: int = number) -> tuple[float, float]:
                steady, wall = clocks()
                pause = later if number else 0
                return steady + pause, wall + later - pause

            with monkeypatch.context() as patch:
                patch.setattr(script_claim, "clocks", paused)
                with pytest.raises(ScriptBusyError):
                    check(chat, "s1")
        check(chat, "s1")
        monkeypatch.setattr(script_claim, "now", lambda: now() + timedelta(seconds=later + 4))
        with claimed(other, "s1", wait=False):
            # The node that was paused neither renews its claim nor removes that of the other one.
            assert not script_claim._CLAIMS[chat.folder, "s1"].renew()
            assert is_claimed(chat, "s1")
