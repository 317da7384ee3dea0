"""A chat's history in the index is that of its store, and parents always come after their children."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from covalt_git.git_store.patches import change_patch
from covalt_git.git_store.store import GitStore
from covalt_git.index.history import HistoryRow
from covalt_git.index.index import Index
from covalt_git.workspaces import branches
from covalt_git.workspaces.chat import ChatStore
from covalt_git.workspaces.writing import writing
from tests.index.rows import chats_of, finish, open_index, push
from tests.workspaces.stores import add_message, last_message, upload


@pytest.fixture
def chat(root: Path) -> Iterator[ChatStore]:
    """A chat with messages, two branches, a merge of them, and clocks that disagree."""
    with chats_of(root).new("long", title="Long") as chat:
        upload(chat, "a.txt", b"1")
        add_message(chat, "make a page")
        first = last_message(chat)
        with writing(chat) as writer:
            finish(writer, "page.html", b"<p>", message_id=first)
            done = finish(writer, "page.html", b"<p>\n", message_id=first)
            branches.create(writer, "idea", done)
        add_message(chat, "make it blue")
        with writing(chat) as writer:
            finish(writer, "page.css", b"blue", message_id=last_message(chat))
            writer.checkout("idea")
        head = str(chat.head())
        ahead = push(chat, "idea", head, head, message="Fix it\n\nm", when="2050-01-01T00:00:00Z")
        behind = push(chat, "idea", ahead, ahead, message="late", when="2001-01-01T00:00:00Z")
        main = str(chat.branch("main").manifest_id)
        push(chat, "main", main, main, behind, message="merge idea", when="2026-11-20T17:24:00Z")
        with writing(chat) as writer:
            finish(writer, "idea.txt", b"red")
        yield chat


@pytest.fixture
def index(root: Path, chat: ChatStore) -> Iterator[Index]:
    with open_index(root) as index:
        index.sync_chat(chat)
        yield index


def history(index: Index, head: str | None = None) -> tuple[HistoryRow, ...]:
    page = index.manifests("long", head=head, limit=1000)
    assert not page.more
    return page.rows


def test_every_row_holds_the_facts_of_its_manifest(index: Index, chat: ChatStore) -> None:
    rows = history(index)
    heads = {one.name: one.manifest_id for one in chat.branches()}

    assert {row.id for row in rows} == set(chat.reachable())
    assert index.heads("long") == {name: oid for name, oid in heads.items() if oid}
    for row in rows:
        manifest = chat.manifest(row.id)
        call = manifest.record.call
        assert (row.parents, row.tree_id) == (manifest.parents, manifest.tree_id)
        assert (row.source, row.source_ref) == (manifest.source, manifest.source_ref)
        assert (row.title, row.by) == (manifest.title, manifest.record.by)
        assert (row.created_at, row.message_id) == (manifest.created_at, manifest.message_id)
        changes = chat.changes(manifest.parent_id, manifest.id)
        patch = "".join(change_patch(chat.store, change) for change in changes).splitlines()
        lines = [
            one[0]
            for one in patch
            if one.startswith(("+", "-")) and one[:4] not in {"+++ ", "--- "}
        ]
        assert row.changed_files == len(changes)
        assert (row.added_lines, row.deleted_lines) == (lines.count("+"), lines.count("-"))
        assert (row.tool_id, row.status) == ((call.tool_id, call.status) if call else (None, None))
        assert set(row.branches) == {name for name, oid in heads.items() if oid == row.id}
    assert {row.source for row in rows} == {"user_upload", "message", "tool_run", "push"}
    assert {len(row.parents) for row in rows} == {0, 1, 2}


def test_parents_come_after_their_children_whatever_the_clocks_were(index: Index) -> None:
    rows = history(index)

    place = {row.id: at for at, row in enumerate(rows)}
    assert all(place[row.id] < place[parent] for row in rows for parent in row.parents)
    times = [row.created_at for row in rows]
    assert times != sorted(times, reverse=True)


def test_an_index_that_is_built_anew_reads_no_file(
    root: Path, chat: ChatStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    read_blob = GitStore.read_blob

    def noted(self: GitStore, oid: str) -> bytes:
        read.append(oid)
        return read_blob(self, oid)

    monkeypatch.setattr(GitStore, "read_blob", noted)
    (root / "data" / "index.db").unlink(missing_ok=True)
    with open_index(root) as index:
        index.sync_chat(chat)
        files = {file.oid for oid in chat.reachable() for file in chat.files(oid).values()}
        assert files.isdisjoint(read)

        counted = history(index)
        read.clear()
        assert history(index) == counted
        assert index.blobs(chat, files).keys() == files
        once = len(read)
        assert index.blobs(chat, files).keys() == files
        assert (len(read), once) == (once, len(files))
