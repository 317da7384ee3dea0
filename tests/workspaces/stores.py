"""Chats in a folder of their own, what a folder holds, and stock git, which judges the stores."""

import contextlib
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from covalt_git.file_edits import uploads
from covalt_git.file_edits.uploads import NewFile
from covalt_git.json_values import JsonObject
from covalt_git.models.calls import Approval, PendingCall, ToolsetVersion
from covalt_git.models.chats import FileChange
from covalt_git.models.commit_record import CallRecord, MessageRecord
from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.names import new_id
from covalt_git.system import atomic_write
from covalt_git.transfers.exporting import Exported, export
from covalt_git.workspaces import branches, collecting, commits
from covalt_git.workspaces.chat import ChatStore
from covalt_git.workspaces.collecting import Collected
from covalt_git.workspaces.registry import Chats
from covalt_git.workspaces.writer import Writer
from covalt_git.workspaces.writing import writing

FAST = WorkspaceConfig(durability="fast")
DIGEST = "sha256:" + "0" * 64
FUTURE = "2999-01-01T00:00:00.000Z"

Layout = dict[str, tuple[str, bytes]]
"""Every path of a folder with its kind (file, program, link, folder) and its content."""

_ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_AUTHOR_NAME": "Ann",
    "GIT_AUTHOR_EMAIL": "ann@example.com",
    "GIT_COMMITTER_NAME": "Ann",
    "GIT_COMMITTER_EMAIL": "ann@example.com",
}


@contextlib.contextmanager
def scratch(*, in_memory: bool = True) -> Iterator[Path]:
    """Yield a folder that is gone afterwards, in memory where there is such a place."""
    memory = Path("/dev/shm")
    place = memory if in_memory and os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def run_git(path: Path, *arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run stock git at ``path``, with no configuration but the repository's."""
    return subprocess.run(
        ["git", "-C", str(path), "-c", "safe.directory=*", *arguments],
        input=given,
        capture_output=True,
        env=_ENVIRONMENT,
        check=False,
    )


def git(path: Path, *arguments: str, given: bytes = b"") -> str:
    """Return what stock git prints, which has to succeed."""
    done = run_git(path, *arguments, given=given)
    assert done.returncode == 0, (arguments, done.stderr)
    return done.stdout.decode("utf-8", "surrogateescape")


def commit_all(folder: Path, message: str = "x") -> None:
    """Let stock git commit everything in a working tree."""
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", message)


def fsck(chat: ChatStore) -> str:
    """Return all that ``git fsck --strict`` has to say about a chat's store: nothing, if it is well."""
    return fsck_store(chat.folder / "store.git")


def fsck_store(store: Path) -> str:
    """Return all that ``git fsck --strict`` has to say about a store, but that it has no branch."""
    done = run_git(store, "fsck", "--strict", "--full", "--no-dangling")
    lines = (done.stdout + done.stderr).decode("utf-8", "replace").splitlines()
    said = [line for line in lines if not line.startswith("notice: ")]
    return "\n".join([*said, *([f"exit {done.returncode}"] if done.returncode else [])])


def open_chats(folder: Path, config: WorkspaceConfig = FAST) -> Chats:
    """Return the chats of a project whose data is in ``folder``."""
    return Chats(folder / "chats", config)


def clear(folder: Path) -> None:
    """Remove everything that is below ``folder``."""
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


def put(folder: Path, layout: Mapping[str, tuple[str, bytes]]) -> None:
    """Make everything that ``layout`` says below ``folder``."""
    for path, (kind, content) in layout.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if kind == "folder":
            target.mkdir(exist_ok=True)
        elif kind == "link":
            target.symlink_to(os.fsdecode(content))
        else:
            target.write_bytes(content)
            target.chmod(0o755 if kind == "program" else 0o644)


def layout_of(folder: Path) -> Layout:
    """Return everything that is below ``folder``, only folders that are empty among the folders."""
    found: Layout = {}
    for top, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            path = Path(top) / name
            relative = path.relative_to(folder).as_posix()
            if path.is_symlink():
                target = os.readlink(path)  # noqa: PTH115 - Path would tidy it up
                found[relative] = ("link", os.fsencode(target))
            elif path.is_dir():
                if not any(path.iterdir()):
                    found[relative] = ("folder", b"")
            else:
                kind = "program" if path.stat().st_mode & 0o100 else "file"
                found[relative] = (kind, path.read_bytes())
    return found


def loose(store: Path, oid: str) -> Path:
    """Let stock git unpack a store, and return the file of one of its objects, to be tampered with."""
    for pack in (store / "objects/pack").glob("*.pack"):
        content = pack.read_bytes()
        for path in (pack, pack.with_suffix(".idx")):
            path.unlink()
        git(store, "unpack-objects", "-q", given=content)
    path = store / "objects" / oid[:2] / oid[2:]
    path.chmod(0o644)
    return path


def tree_of(chat: ChatStore, revision: str) -> dict[str, tuple[str, str]]:
    """Return the mode and id of every file of a revision, as stock git lists them."""
    listed = git(chat.folder / "store.git", "ls-tree", "-r", "-z", "--full-tree", revision)
    found = {}
    for line in listed.split("\0")[:-1]:
        about, _, path = line.partition("\t")
        mode, _, oid = about.split(" ")
        found[path] = (mode, oid)
    return found


def git_tree(layout: Layout, algorithm: str = "sha1") -> dict[str, tuple[str, str]]:
    """Return the mode and id that git has to give every file of ``layout``."""
    modes = {"file": "100644", "program": "100755", "link": "120000"}
    return {
        path: (
            modes[kind],
            hashlib.new(algorithm, b"blob %d\0" % len(content) + content).hexdigest(),
        )
        for path, (kind, content) in layout.items()
        if kind != "folder"
    }


def save(chat: ChatStore) -> str:
    """Save the edits of a chat's folder and return the manifest."""
    with writing(chat) as writer:
        manifest_id = writer.commit_changes()
    assert manifest_id is not None
    return manifest_id


def collect(chat: ChatStore, *, everything: bool = True) -> Collected:
    """Collect the garbage of a chat, including new objects."""
    with writing(chat) as writer:
        return collecting.collect(writer, everything=everything)


def branch_off(chat: ChatStore, name: str) -> None:
    """Save the edits, make a branch of them and go there."""
    with writing(chat) as writer:
        branches.create(writer, name, writer.commit_changes())
        writer.checkout(name)


def checkout(chat: ChatStore, name: str) -> list[FileChange]:
    """Go to a branch."""
    with writing(chat) as writer:
        return writer.checkout(name)


def upload(chat: ChatStore, name: str, content: bytes, *, folder: str = "") -> str:
    """Upload one file and return where it is."""
    with writing(chat) as writer:
        (placed,) = uploads.upload(writer, [NewFile(name, content)], folder=folder)
    return placed.path


class _Died(BaseException):
    """What a writer ends by that does not let go of the chat in peace."""


@contextlib.contextmanager
def dying(chat: ChatStore) -> Iterator[Writer]:
    """Yield a writer who leaves the chat's lock as one does who is killed after the block."""
    with contextlib.suppress(_Died), writing(chat) as writer:
        yield writer
        raise _Died


def pending_call(chat: ChatStore, **changes: object) -> PendingCall:
    """Return a call of this chat as it would be written down before it runs."""
    call = PendingCall(
        id=new_id(),
        chat_id=chat.id,
        branch=chat.active_branch(),
        tool_id="app-builder:write_file",
        args={"path": "a.txt"},
        status="running",
        by="local",
        started_at=commits.now(),
        base=chat.head(),
        toolset=ToolsetVersion(id="app-builder", version="1.0.0", digest=DIGEST),
    )
    return call.model_copy(update=changes)


def approval_of(call: PendingCall, *, expires_at: str = FUTURE) -> Approval:
    """Return the approval that a call waits for."""
    return Approval(
        execution_id=call.execution_id or new_id(),
        call_id=call.id,
        chat_id=call.chat_id,
        branch=call.branch,
        tool_id=call.tool_id,
        args=call.args,
        args_digest=DIGEST,
        definition_digest=DIGEST,
        by=call.by,
        base=call.base,
        created_at=call.started_at,
        expires_at=expires_at,
    )


def export_to(chat: ChatStore, path: Path, *, branch: str | None = None) -> Exported:
    """Export a chat to a new file."""
    with atomic_write.create(path) as file:
        return export(chat, file, branch=branch)


def add_message(chat: ChatStore, text: str) -> str:
    """Commit a message and the edits of the folder; return the manifest."""
    with writing(chat) as writer:
        message = MessageRecord(role="user", text=text)
        return writer.commit("message", writer.scan(), subject="said", by="ann", message=message)


def call_record(**fields: object) -> CallRecord:
    """Return the record of a call that went well."""
    values: JsonObject = {
        "tool_id": "app-builder:write_file",
        "args": {"path": "a.txt"},
        "status": "success",
        "started_at": commits.now(),
        "finished_at": commits.now(),
        "toolset": {"id": "app-builder", "version": "1.0.0", "digest": DIGEST},
    }
    return CallRecord.model_validate(values | fields)


def last_message(chat: ChatStore) -> str | None:
    """Return the id of the last message of the active branch, read from its commits."""
    messages = (one.source_ref for one in chat.log(chat.head()) if one.source == "message")
    return next(messages, None)
