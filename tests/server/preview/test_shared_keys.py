"""Keys of previews that a node has created and another one accepts."""

import time
from collections.abc import Iterator
from functools import partial

import pytest

from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.workspaces.registry import Chats
from covalt_git.workspaces.server_notes import notes_of
from covalt_server.preview.keys import IDLE_S, PreviewedCommit
from covalt_server.preview.shared_keys import FRESH_S, NOTES, SharedPreviewKeys
from covalt_server.security import Guard, masked_path
from tests.workspaces.nodes import server_git, two_nodes

FIRST = PreviewedCommit("session", "c1", "1" * 40)


class Clock:
    time = 1_000_000.0

    def __call__(self) -> float:
        return self.time


class Nodes:
    """Two nodes with one token, and a clock."""

    chats: Chats

    def __init__(self, *configs: WorkspaceConfig) -> None:
        self.clock = Clock()
        secret = Guard("the-token-of-this-test", 1, is_shared=True).preview_secret
        self.a, self.b = (
            SharedPreviewKeys(secret, partial(notes_of, config, NOTES), self.clock)
            for config in configs
        )


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    with two_nodes() as (a, b):
        pair = Nodes(a.config, b.config)
        pair.chats = a
        yield pair


def test_a_key_of_one_node_opens_its_commit_on_another(nodes: Nodes) -> None:
    key = nodes.a.key(FIRST)
    assert nodes.b.find(key) == FIRST
    assert nodes.a.key(FIRST) == nodes.b.key(FIRST) == key
    without = FIRST._replace(session="")
    assert nodes.b.find(nodes.a.key(without)) == without
    assert masked_path(f"/preview/{key}/index.html") == "/preview/***/index.html"


def test_no_one_else_can_make_a_key(nodes: Nodes) -> None:
    key = nodes.a.key(FIRST)
    other = Guard("another-token-of-a-server", 1, is_shared=True).preview_secret
    forged = SharedPreviewKeys(other, lambda: None, nodes.clock).key(FIRST)
    moved = key.replace(b"1".hex() * 40, b"2".hex() * 40)
    assert moved != key
    for text in (forged, moved, key[:-2], key[2:], f"{key}00", "", "x", "ab" * 8):
        assert nodes.b.find(text) is None


def test_a_key_ends_by_itself_and_with_its_session_on_all_nodes(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, other = nodes.a.key(FIRST), nodes.a.key(FIRST._replace(session="other"))
    assert nodes.b.opens(own)
    nodes.a.end("session")
    assert [nodes.a.opens(key) for key in (own, other)] == [False, True]
    start = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: start + FRESH_S + 1)
    assert [nodes.b.opens(key) for key in (own, other)] == [False, True]

    nodes.clock.time += IDLE_S + 1
    assert not nodes.b.opens(other)
    # The note of the session that ended is removed with the next one.
    nodes.b.end("later")
    listed = server_git(nodes.chats, "covalt.registry", "for-each-ref", NOTES)
    assert len(listed.splitlines()) == 1


def test_a_node_that_cannot_know_whether_a_session_has_ended_shows_no_preview() -> None:
    with two_nodes() as (a, b):
        nodes = Nodes(a.config, b.config)
        key = nodes.a.key(FIRST)
        server_git(b, "covalt.registry", "config", "core.repositoryformatversion", "99")
        assert not nodes.b.opens(key)
