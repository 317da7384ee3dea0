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
from covalt_git.models.calls import Approval, PendingCall, ToolsetVersion
from covalt_git.models.commit_record import CallRecord, CommitRecord, MessageRecord
from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.names import new_id
from covalt_git.toolsets.new_project import create_project
from covalt_git.workspaces import branches, commits
from covalt_git.workspaces.chat import ChatStore
from covalt_git.workspaces.registry import Chats
from covalt_git.workspaces.writer import Writer
from covalt_git.workspaces.writing import recover, writing

NO_DIGEST = "sha256:" + "0" * 64
NOW = "2026-11-20T17:24:00.123Z"
LATER = "2999-01-01T00:00:00Z"

Rows = dict[str, list[tuple[Any, ...]]]


def open_index(root: Path, file: Path | None = None) -> Index:
    """Open the project's index, or another of the same project."""
    workspace = WorkspaceConfig(durability="fast")
    return Index.open(root, workspace, file or root / "data" / "index.db")


def chats_of(root: Path) -> Chats:
    """The project's chats, written without waiting for the disk."""
    return Chats(root / "data" / "chats", WorkspaceConfig(durability="fast"))


def dump(file: Path) -> Rows:
    """Return every row of every table; of the search index its vocabulary, not its storage."""
    with contextlib.closing(sqlite3.connect(file)) as connection:
        names = connection.execute(
            "SELECT name FROM pragma_table_list WHERE schema = 'main'"
            " AND type IN ('table', 'virtual') AND name != 'sqlite_schema' ORDER BY name"
        ).fetchall()
        return {
            name: sorted(connection.execute(f"SELECT * FROM {name}").fetchall(), key=repr)
            for (name,) in names
        }


def synced(root: Path) -> Rows:
    """Update the project's index and return its rows."""
    with open_index(root) as index:
        index.sync()
    return dump(root / "data" / "index.db")


def anew(root: Path, file: Path) -> Rows:
    """Return the rows of a new index."""
    file.unlink(missing_ok=True)
    with open_index(root, file) as index:
        index.sync()
    return dump(file)


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


def pending(chat: ChatStore, **fields: Any) -> PendingCall:
    facts = {
        "id": new_id(),
        "chat_id": chat.id,
        "branch": chat.active_branch(),
        "tool_id": "app-builder:run_command",
        "args": {"command": "echo hi"},
        "status": "pending",
        "by": "local",
        "started_at": NOW,
        "base": chat.head(),
        "toolset": ToolsetVersion(id="app-builder", version="1.0.0", digest=NO_DIGEST),
    }
    return PendingCall.model_validate(facts | fields)


def ask(writer: Writer, **fields: Any) -> Approval:
    """Store a call that is pending approval."""
    execution_id = new_id()
    call = pending(writer.chat, execution_id=execution_id)
    facts = {
        "execution_id": execution_id,
        "call_id": call.id,
        "chat_id": call.chat_id,
        "branch": call.branch,
        "tool_id": call.tool_id,
        "args": call.args,
        "args_digest": NO_DIGEST,
        "definition_digest": NO_DIGEST,
        "by": "local",
        "reasons": ["the toolset requires it"],
        "base": call.base,
        "created_at": NOW,
        "expires_at": LATER,
    }
    approval = Approval.model_validate(facts | fields)
    writer.put_call(call)
    writer.put_approval(approval)
    return approval


def finish(
    writer: Writer, path: str, content: bytes, *, result: Any = None, message_id: str | None = None
) -> str:
    """Record a call that wrote a file; return its manifest."""
    call = pending(
        writer.chat,
        tool_id="app-builder:write_file",
        args={"path": path},
        status="running",
        base=writer.commit_changes(),
        message_id=message_id,
    )
    writer.put_call(call)
    (writer.chat.workspace / path).write_bytes(content)
    record = CallRecord(
        tool_id=call.tool_id,
        args=call.args,
        result={"written": path} if result is None else result,
        render_plan={"renderer": "code", "config": {"file": f"workspace:{path}"}},
        status="success",
        started_at=NOW,
        finished_at=NOW,
        toolset=call.toolset,
    )
    return writer.finish_call(call, record, snapshot=writer.scan())


def say(writer: Writer, text: str) -> str:
    """Add a message to the active branch; return its id."""
    chat = writer.chat
    message = MessageRecord(role="user", text=text)
    record = CommitRecord(id=new_id(), at=commits.now(), by="ann", message=message)
    writer.commit("message", record, chat.state(chat.head()).tree, subject=text)
    return record.id


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
        writer.put_call(pending(chat, status="running"))
    with chats_of(root).new("empty"):
        pass
    with chats_of(root).new("c2") as chat, writing(chat) as writer:
        (chat.workspace / "notes.md").write_text("# notes\n")
        writer.commit_changes()
