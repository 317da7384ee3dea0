"""Every row of an index, to compare; and a project with chats, calls and approvals of every kind."""

import contextlib
import os
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

from covalt_git.file_edits import uploads
from covalt_git.file_edits.uploads import NewFile
from covalt_git.index.index import Index
from covalt_git.models.calls import Approval
from covalt_git.toolsets.new_project import create_project
from covalt_git.workspaces import branches
from covalt_git.workspaces.chat import HEADS, ChatStore
from covalt_git.workspaces.registry import Chats
from covalt_git.workspaces.writer import Writer
from covalt_git.workspaces.writing import recover, writing
from tests.workspaces.stores import (
    FAST,
    add_message,
    approval_of,
    call_record,
    open_chats,
    pending_call,
)

NOW = "2026-11-20T17:24:00.123Z"

ASKED_FOR = {"blobs", "line_counts"} | {"active_files", "active_trees", "file_contents"}
"""Tables that are filled when they are asked for; the words of files are compared by tests/index/test_chat_search.py."""
WORDS_OF_FILES = {"name_words", "content_words"}

Rows = dict[str, list[tuple[Any, ...]]]


def open_index(root: Path, file: Path | None = None) -> Index:
    """Open the project's index, or another of the same project."""
    return Index.open(root, FAST, path=file)


def chats_of(root: Path) -> Chats:
    """The project's chats, written without waiting for the disk."""
    return open_chats(root / "data")


def dump(file: Path) -> Rows:
    """Return every row of every table; of the search index its vocabulary, not its storage.

    Rows that are written when they are asked for are left out.
    """
    with contextlib.closing(sqlite3.connect(file)) as connection:
        names = connection.execute(
            "SELECT name FROM pragma_table_list WHERE schema = 'main'"
            " AND type IN ('table', 'virtual') AND name != 'sqlite_schema' ORDER BY name"
        ).fetchall()
        return {
            name: sorted(connection.execute(f"SELECT * FROM {name}").fetchall(), key=repr)
            for (name,) in names
            if name not in ASKED_FOR | WORDS_OF_FILES
        }


def searched_files(file: Path) -> list[tuple[Any, ...]]:
    """Return the files of active branches with their words, without row ids, and all words of contents."""
    with contextlib.closing(sqlite3.connect(file)) as connection:
        query = """
            SELECT f.chat_id, f.path, f.oid, f.reason, n.words, c.words FROM active_files AS f
            JOIN name_words AS n ON n.rowid = f.id LEFT JOIN content_words AS c ON c.rowid = f.content_id
            UNION ALL SELECT '', '', '', '', '', words FROM content_words
        """
        return sorted(connection.execute(query).fetchall(), key=repr)


def synced(root: Path, file: Path | None = None) -> Rows:
    """Update the project's index, or another of the same project, and return its rows."""
    with open_index(root, file) as index:
        index.sync()
        index.sync_files(limit=None)
    return dump(index.path)


def anew(root: Path, file: Path) -> Rows:
    """Return the rows of a new index."""
    file.unlink(missing_ok=True)
    return synced(root, file)


def git(chat: ChatStore, *arguments: str, when: str = NOW) -> str:
    """Return what stock git prints; it commits as Ann, at ``when``."""
    names = {"NAME": "Ann", "EMAIL": "ann@example.com", "DATE": when}
    variables = {
        f"GIT_{who}_{key}": text for who in ("AUTHOR", "COMMITTER") for key, text in names.items()
    }
    command = ["git", "-C", str(chat.folder / "store.git"), *arguments]
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ | variables
    )
    return done.stdout.strip()


def push(chat: ChatStore, branch: str, tree: str, *parents: str, message: str, when: str) -> str:
    """Move a branch to a commit that git made from the tree of a commit and these parents; return it."""
    options = [part for parent in dict.fromkeys(parents) for part in ("-p", parent)]
    made = git(chat, "commit-tree", f"{tree}^{{tree}}", "-m", message, *options, when=when)
    git(chat, "update-ref", HEADS + branch, made)
    return made


def ask(writer: Writer, **fields: Any) -> Approval:
    """Store a call that is pending approval."""
    call = pending_call(writer.chat, status="pending", tool_id="app-builder:run_command")
    approval = approval_of(call).model_copy(update={"reasons": ("toolset",), **fields})
    writer.put_call(call.model_copy(update={"execution_id": approval.execution_id}))
    writer.put_approval(approval)
    return approval


def finish(
    writer: Writer, path: str, content: bytes, *, result: Any = None, message_id: str | None = None
) -> str:
    """Record a call that wrote a file; return its manifest."""
    base = writer.commit_changes()
    args = {"path": path}
    call = pending_call(writer.chat, args=args, base=base, message_id=message_id)
    writer.put_call(call)
    (writer.chat.workspace / path).write_bytes(content)
    plan = {"renderer": "code", "config": {"file": f"workspace:{path}"}}
    record = call_record(args=args, result=result or {"written": path}, render_plan=plan)
    return writer.finish_call(call, record, snapshot=writer.scan())


def make_lively(root: Path) -> None:
    """Make a project with chats, branches, calls of each status and approvals of each state."""
    create_project(root)
    with chats_of(root).new("c1", title="First") as chat, writing(chat) as writer:
        uploads.upload(
            writer, [NewFile("a.csv", b"a,b\n1,2\n"), NewFile("run.sh", b"#!/bin/sh\n", True)]
        )
        first = finish(writer, "b.txt", b"hello\n")
        finish(writer, "large.txt", b"x" * 40_000, result={"text": "y" * 40_000})
        branches.create(writer, "idea", first)
        writer.checkout("idea")
        finish(writer, "c.txt", b"on idea\n")
        ask(writer)
        ask(writer, state="denied", decided_by="ann", decided_at=NOW)
        ask(writer, expires_at="2000-01-01T00:00:00Z")
        recover(writer)  # the expired one
        writer.put_call(pending_call(chat, status="running"))
    with chats_of(root).new("empty"):
        pass
    with chats_of(root).new("c2") as chat, writing(chat) as writer:
        (chat.workspace / "notes.md").write_text("# notes\n")
        writer.commit_changes()
    with chats_of(root).open("c2") as chat:
        add_message(chat, "Chart the weather")
