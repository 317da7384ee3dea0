"""The law of the index: an updated index equals a new one, row for row."""

import functools
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from covalt_git.file_edits import uploads
from covalt_git.file_edits.uploads import NewFile
from covalt_git.index.database import remove
from covalt_git.toolsets.state_store import set_enabled
from covalt_git.workspaces import branches
from covalt_git.workspaces.chat import HEADS, ChatStore
from covalt_git.workspaces.writer import Writer
from covalt_git.workspaces.writing import writing
from tests.examples import rest
from tests.index.rows import (
    NOW,
    anew,
    ask,
    chats_of,
    dump,
    finish,
    git,
    open_index,
    push,
    searched_files,
    synced,
)
from tests.workspaces.stores import FUTURE, add_message, call_record, pending_call


def contents(root: Path) -> dict[Path, bytes]:
    """Return every file of a project but the index."""
    files = [path for path in root.rglob("*") if path.is_file()]
    return {path: path.read_bytes() for path in files if not path.name.startswith("index.db")}


def test_a_call_that_ends_while_the_chat_is_read_is_in_the_index(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        chats_of(root).new("c9") as chat,
        writing(chat) as writer,
        open_index(root) as index,
        chats_of(root).open("c9") as read,
    ):
        base = writer.commit_changes()
        call = pending_call(chat, base=base, status="running")
        writer.put_call(call)
        refs_of = read.store.refs

        def refs(prefix: str) -> dict[str, str]:
            refs_before = refs_of(prefix)
            if chat.call(call.id) is not None:
                writer.finish_call(call, call_record())
            return refs_before

        monkeypatch.setattr(read.store, "refs", refs)
        index.sync_chat(read)
        assert [(row.id, row.status) for row in index.calls("c9")] == [(call.id, "running")]
        index.sync_chat(read)
        assert [(row.id, row.status) for row in index.calls("c9")] == [(call.id, "success")]


def test_a_deleted_or_rebuilt_index_has_the_same_rows_and_no_other_file_changes(root: Path) -> None:
    files = contents(root)
    before = synced(root)
    file = root / "data" / "index.db"

    assert {name for name, rows in before.items() if not rows} == {"toolset_mcp_servers"}
    assert {row[7] for row in before["tool_calls"]} == {"pending", "running", "success", "error"}
    assert {row[6] for row in before["approvals"]} == {"pending", "denied", "expired"}
    content = file.read_bytes()
    assert synced(root) == before
    assert file.read_bytes() == content
    with open_index(root) as index:
        index.rebuild()
    assert dump(file) == before
    remove(file)
    with open_index(root) as index:
        index.sync_toolsets()
        for chat_id in reversed(index.chats.ids()):
            with index.chats.as_left(chat_id) as chat:
                index.sync_chat(chat)
    assert dump(file) == before
    assert contents(root) == files


class Life:
    """Random but repeatable changes to a project by users, tools and git."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root = root
        self.random = random.Random(seed)
        self.did: list[str] = []
        self.number = 0

    def step(self) -> None:
        """Do one thing."""
        things: list[Callable[[], None]] = [
            *(self.in_chat(what) for what in (self.upload, self.upload, self.edit, self.call)),
            *(self.in_chat(what) for what in (self.branch, self.checkout, self.ask, self.settle)),
            *(self.in_chat(what) for what in (self.forget, self.move_back, self.drop_branch)),
            *(self.in_chat(what) for what in (self.merge, self.copy_commit)),
            *(
                self.say,
                self.new_chat,
                self.delete_chat,
                self.describe,
                self.add_file,
                self.remove_file,
            ),
            *(self.switch, self.override, self.break_and_mend, self.toolset),
        ]
        thing = self.random.choice(things)
        self.did.append(thing.__name__)
        thing()

    def any_text(self) -> str:
        self.number += 1
        return f"{self.random.choice(['red', 'green', 'blue'])} {self.number % 7}"

    def in_chat(self, what: Callable[[ChatStore, Writer], None]) -> Callable[[], None]:
        @functools.wraps(what)
        def act() -> None:
            chats = chats_of(self.root)
            with chats.open(self.random.choice(chats.ids())) as chat, writing(chat) as writer:
                what(chat, writer)

        return act

    def upload(self, _: ChatStore, writer: Writer) -> None:
        name = f"{self.random.choice('abc')}.txt"
        uploads.upload(writer, [NewFile(name, self.any_text().encode())])

    def edit(self, chat: ChatStore, writer: Writer) -> None:
        files = [path for path in chat.workspace.iterdir() if path.is_file()]
        if files and self.random.random() < 0.4:
            self.random.choice(sorted(files)).unlink()
        (chat.workspace / "folder").mkdir(exist_ok=True)
        (chat.workspace / "folder" / self.random.choice("xy")).write_text(self.any_text())
        writer.commit_changes()

    def call(self, _: ChatStore, writer: Writer) -> None:
        finish(writer, self.random.choice(["out.txt", "a.txt"]), self.any_text().encode())

    def branch(self, chat: ChatStore, writer: Writer) -> None:
        states = sorted(chat.reachable())
        if states:
            name = f"b{len(chat.branches())}-{self.random.randrange(1000)}"
            if name not in {one.name for one in chat.branches()}:
                branches.create(writer, name, self.random.choice(states))

    def checkout(self, chat: ChatStore, writer: Writer) -> None:
        writer.checkout(self.random.choice(chat.branches()).name)

    def ask(self, _: ChatStore, writer: Writer) -> None:
        ask(writer, expires_at=self.random.choice([FUTURE, "2001-01-01T00:00:00Z"]))

    def settle(self, chat: ChatStore, writer: Writer) -> None:
        waiting = [one for one in chat.approvals() if one.state == "pending"]
        if waiting:
            chosen = self.random.choice(waiting)
            state = self.random.choice(["approved", "denied", "superseded"])
            decided = {"state": state, "decided_by": "ann", "decided_at": NOW}
            writer.put_approval(chosen.model_copy(update=decided), before=chosen)

    def forget(self, chat: ChatStore, writer: Writer) -> None:
        for call in chat.calls()[:1]:
            writer.drop_call(call.id)

    def move_back(self, chat: ChatStore, _: Writer) -> None:
        """Move a branch as stock git does, to any commit."""
        branches = [one for one in chat.branches() if one.manifest_id and not one.active]
        if branches:
            target = self.random.choice(sorted(chat.reachable()))
            git(chat, "update-ref", HEADS + self.random.choice(branches).name, target)

    def drop_branch(self, chat: ChatStore, _: Writer) -> None:
        branches = [one for one in chat.branches() if not one.active]
        if branches:
            git(chat, "update-ref", "-d", HEADS + self.random.choice(branches).name)

    def merge(self, chat: ChatStore, writer: Writer) -> None:
        """Push a commit with two parents and any time."""
        head, states = writer.commit_changes(), sorted(chat.reachable())
        if head is not None:
            other = self.random.choice(states)
            self.push(chat, head, "merge", head, other)

    def copy_commit(self, chat: ChatStore, writer: Writer) -> None:
        """Copy a commit's message with its record into another commit, as cherry-pick and rebase do."""
        head, states = writer.commit_changes(), sorted(chat.reachable())
        if head is not None:
            copied = self.random.choice(states)
            text = chat.store.read_commit(copied).message
            self.push(chat, copied, text, head)

    def push(self, chat: ChatStore, tree: str, message: str, *parents: str) -> None:
        when = self.random.choice(["2001-01-01T00:00:00Z", "2050-01-01T00:00:00Z"])
        push(chat, chat.active_branch(), tree, *parents, message=message, when=when)

    def say(self) -> None:
        chats = chats_of(self.root)
        with chats.open(self.random.choice(chats.ids())) as chat:
            add_message(chat, self.any_text())

    def new_chat(self) -> None:
        chats = chats_of(self.root)
        name = f"n{self.random.randrange(10_000)}"
        if name not in chats.ids():
            chats.new(name, title=self.any_text()).store.close()

    def delete_chat(self) -> None:
        chats = chats_of(self.root)
        if len(chats.ids()) > 2:
            shutil.rmtree(chats.folder / self.random.choice(chats.ids()))

    def manifest(self) -> Path:
        name = self.random.choice(["app-builder", "data-lab"])
        return self.root / "toolsets" / name / "toolset.yaml"

    def describe(self) -> None:
        file = self.manifest()
        lines = file.read_text().splitlines()
        at = next(at for at, line in enumerate(lines) if line.startswith("description:"))
        lines[at] = f"description: {self.any_text()}"
        file.write_text("\n".join(lines) + "\n")

    def add_file(self) -> None:
        name = f"{self.random.choice('pqr')}.txt"
        folder = self.manifest().parent / "assets"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(self.any_text())

    def remove_file(self) -> None:
        for file in sorted(self.root.glob("toolsets/*/assets/?.txt"))[:1]:
            file.unlink()

    def switch(self) -> None:
        set_enabled(self.root, self.manifest().parent.name, enabled=self.random.random() < 0.5)

    def override(self) -> None:
        folder = self.root / "toolsets" / "state"
        folder.mkdir(exist_ok=True)
        text = f"overrides: {{write_file: {{name_override: {self.any_text()}}}}}\n"
        (folder / "app-builder.yaml").write_text(text)

    def break_and_mend(self) -> None:
        file = self.manifest()
        text = file.read_text()
        file.write_text(text + "colour: red\n")
        synced(self.root)
        file.write_text(text)

    def toolset(self) -> None:
        copy = self.root / "toolsets" / "third"
        if copy.exists():
            shutil.rmtree(copy)
        else:
            shutil.copytree(self.root / "toolsets" / "data-lab", copy)
            text = (copy / "toolset.yaml").read_text()
            (copy / "toolset.yaml").write_text(text.replace("id: data-lab", "id: third"))


@pytest.mark.parametrize("seed", [0, rest(1)])
def test_an_updated_index_equals_one_made_anew_after_any_changes(
    root: Path, tmp_path: Path, seed: int
) -> None:
    life = Life(root, seed)

    for _ in range(6):
        for _ in range(life.random.randint(1, 5)):
            life.step()
        rows = synced(root)

        assert rows == anew(root, tmp_path / "anew.db"), life.did
        files = searched_files(root / "data" / "index.db")
        assert files == searched_files(tmp_path / "anew.db"), life.did
    assert len(set(life.did)) > 8
