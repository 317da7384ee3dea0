"""Large projects to measure, made of real parts: copies of the samples, and chats written by the writer.

    python bench/projects.py FOLDER [toolsets] [calls] [branches]

makes a project in FOLDER with many toolsets and one long chat, ``busy``.  The same arguments give the
same toolsets; of a chat, ids and times are its own.  Nothing waits for the disk.
"""

from __future__ import annotations

import random
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from covalt_git.git_store.objects import FILE, TreeEntry
from covalt_git.manifests.toolset_files import STATE_FOLDER
from covalt_git.models.calls import PendingCall, ToolsetVersion
from covalt_git.models.commit_record import (
    CallRecord,
    CommitRecord,
    MessageRecord,
    WorkspaceNotes,
)
from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.names import new_id
from covalt_git.toolsets.new_project import SAMPLES, create_project, sample_toolset
from covalt_git.trust.own_data import is_own
from covalt_git.workspaces import commits, trees
from covalt_git.workspaces.branches import create as create_branch
from covalt_git.workspaces.chat import move_branch
from covalt_git.workspaces.registry import Chats
from covalt_git.workspaces.snapshot import Snapshot
from covalt_git.workspaces.writing import writing

if TYPE_CHECKING:
    from covalt_git.json_values import JsonObject
    from covalt_git.models.commit_record import Source
    from covalt_git.workspaces.writer import Writer

SEED = 11
CALLS_IN_A_MESSAGE = 4
CALLS_BETWEEN_SWITCHES = 25
CHAT = "busy"
LONG = "long"
TOOLS = ("app-builder:write_file", "app-builder:edit_file")
WORDS = ("amber", "basil", "cedar", "delta", "ember", "fjord", "grove", "harbor", "indigo", "kelp")
VERSION = ToolsetVersion(id="app-builder", version="1.0.0", digest="sha256:" + "0" * 64)

SERVER = """
mcp_servers:
  - id: files-{number}
    command: npx
    args: [-y, "@modelcontextprotocol/server-filesystem", "."]
    env: {{TOKEN: "${{FILES_TOKEN}}"}}
"""
HTTP_TOOL = """
  - id: forecast
    name: Forecast
    description: Weather of the next days
    http:
      method: GET
      url: "https://api.example.com/v1/forecast/{city}"
    input_schema:
      type: object
      required: [city]
      properties:
        city: {type: string}
        days: {type: integer, minimum: 1, maximum: 14, default: 3}
"""


def make_toolsets(root: Path, count: int) -> list[str]:
    """Make a project in ``root`` that has ``count`` toolsets, the samples among them; return their ids.

    One in three has an HTTP tool too, one in five an MCP server, one in ten is switched off, and one
    in forty has a mistake.
    """
    if not (root / "covalt.yaml").exists():
        create_project(root)
    ids = list(SAMPLES)
    for number in range(len(SAMPLES), count):
        sample = SAMPLES[number % len(SAMPLES)]
        ids.append(f"{WORDS[number % len(WORDS)]}-{sample}-{number:04}")
        _copy(root, sample, ids[-1], number)
    return ids


def _copy(root: Path, sample: str, toolset_id: str, number: int) -> None:
    folder = root / "toolsets" / toolset_id
    shutil.copytree(
        sample_toolset(sample), folder, ignore=shutil.ignore_patterns("__pycache__", "*.csv")
    )
    manifest = folder / "toolset.yaml"
    name = toolset_id.replace("-", " ").title()
    lines = []
    for line in manifest.read_text(encoding="utf-8").splitlines():
        if line.startswith("id: "):
            lines.append(f"id: {toolset_id}")
        elif line.startswith("name: "):
            lines.append(f"name: {name}")
        elif line.startswith("description: "):
            lines.append(f"{line}, as the {WORDS[number % len(WORDS)]} team does it")
        elif line == "tools:" and number % 3 == 0:
            lines.append(line + HTTP_TOOL)
        else:
            lines.append(line)
    text = "\n".join(lines) + "\n"
    if number % 5 == 0:
        text += SERVER.format(number=number)
    if number % 40 == 39:
        text += "colour: red\n"
    manifest.write_text(text, encoding="utf-8")
    for module in folder.rglob("*.py"):  # no two toolsets share their code
        with module.open("a", encoding="utf-8") as file:
            file.write(f"\n# of {toolset_id}\n")
    if number % 10 == 7:
        state = root / "toolsets" / STATE_FOLDER / f"{toolset_id}.yaml"
        state.parent.mkdir(exist_ok=True)
        state.write_text("enabled: false\n", encoding="utf-8")


def chats_of(root: Path) -> Chats:
    """Return the chats of the project, written without waiting for the disk."""
    is_own(root)  # as the first command in a project, before the chats are there
    return Chats(root / "data" / "chats", WorkspaceConfig(durability="fast"))


def make_chat(
    root: Path, *, calls: int = 1000, branches: int = 8, chat_id: str = CHAT
) -> dict[str, str | None]:
    """Make a chat with that many finished calls on that many branches; return where each branch is.

    Every call is a commit of the real writer that changed a file.  Each fourth begins with a message,
    branches start from the active one, and every 25 calls the chat switches to another.
    """
    chance = random.Random(SEED)
    with chats_of(root).new(chat_id, title=f"{calls} calls") as chat:
        message_id, made = "", 1
        for number in range(calls):
            with writing(chat) as writer:  # each of its own, as calls are
                if number and number % CALLS_BETWEEN_SWITCHES == 0:
                    if made < branches:
                        create_branch(writer, f"retry-{made}", chat.head())
                        made += 1
                    writer.checkout(chance.choice(chat.branches()).name)
                if number % CALLS_IN_A_MESSAGE == 0:
                    message_id = _add_message(
                        writer, f"make {chance.choice(WORDS)} {number} better"
                    )
                _call(writer, number, message_id, chance)
        return {branch.name: branch.manifest_id for branch in chat.branches()}


def _add_message(writer: Writer, text: str) -> str:
    """Commit a message on the active branch; return its id."""
    chat = writer.chat
    state = chat.state(chat.head())
    message_id = new_id()
    words = MessageRecord(role="user", text=text)
    files = Snapshot(state.tree, WorkspaceNotes())
    writer.commit("message", files, subject=text, id=message_id, message=words)
    return message_id


def _call(writer: Writer, number: int, message_id: str, chance: random.Random) -> None:
    """Write a file as a tool would, and finish the call; one in twenty fails."""
    chat = writer.chat
    folder = chance.choice(WORDS)
    path = f"{folder}/page-{number % 40}.html"
    text = f"<h1>{folder} {number}</h1>\n" * chance.randint(3, 40)
    (chat.workspace / folder).mkdir(exist_ok=True)
    (chat.workspace / path).write_text(text, encoding="utf-8")
    args = {"path": path, "content": text}
    failed = number % 20 == 19
    outcome: JsonObject = {"result": {"written": path, "size": len(text)}}
    if failed:
        outcome = {"error": {"code": "tool_raised", "message": f"{path!r} is a folder"}}
    started = commits.now()
    call = PendingCall(
        id=new_id(),
        chat_id=chat.id,
        branch=chat.active_branch(),
        tool_id="app-builder:write_file",
        args=args,
        status="running",
        by=writer.by,
        started_at=started,
        message_id=message_id,
        base=chat.head(),
        toolset=VERSION,
    )
    fields: dict[str, Any] = {
        "tool_id": call.tool_id,
        "args": args,
        "render_plan": {"renderer": "code", "config": {"file": f"workspace:{path}"}},
        "status": "error" if failed else "success",
        "started_at": started,
        "finished_at": commits.now(),
        "toolset": VERSION,
    }
    record = CallRecord.model_validate(fields | outcome)
    writer.put_call(call)
    writer.finish_call(call, record, snapshot=writer.scan())


def make_conversation(root: Path, messages: int, *, chat_id: str = LONG) -> None:
    """Make a chat with that many messages on one branch, each with four calls that change a file.

    The commits are those that the writer stores, but without scans of the folder, and with one flush.
    """
    with chats_of(root).new(chat_id, title=f"{messages} messages") as chat, writing(chat) as writer:
        store, head = chat.store, None
        tree = store.write_tree([])
        for number in range(messages):
            role = ("user", "assistant")[number % 2]
            words = MessageRecord(
                role=role, text=f"Make page {number} **better**\n\n- one\n- `two`"
            )
            message = _record(writer, message=words)
            head = _store(writer, head, tree, message, f"{role}: page {number}")
            for call in range(CALLS_IN_A_MESSAGE):
                path = f"page-{(number * CALLS_IN_A_MESSAGE + call) % 50}.html"
                text = f"<h1>{number}</h1>\n" * (call + 1)
                blob = TreeEntry(b"", FILE, store.write_blob(text.encode()))
                tree = str(trees.edited(store, tree, {path: blob}))
                record = _write_call(writer, TOOLS[call * number % len(TOOLS)], path, text)
                head = _store(writer, head, tree, record, "", message.id)
        store.flush()
        move_branch(store, chat.active_branch(), None, head)


def _store(
    writer: Writer,
    head: str | None,
    tree: str,
    record: CommitRecord,
    subject: str,
    message_id: str | None = None,
) -> str:
    """Store a commit of a message or a call after ``head``; return its id."""
    parents = () if head is None else (head,)
    source: Source = "message" if record.call is None else "tool_run"
    commit = commits.build(
        *(tree, parents, source, record, writer.chat.records),
        subject=subject,
        message_id=message_id,
    )
    return writer.chat.store.write_commit(commit)


def _write_call(writer: Writer, tool_id: str, path: str, content: str) -> CommitRecord:
    now = commits.now()
    call = CallRecord(
        tool_id=tool_id,
        args={"path": path, "content": content},
        result={"written": path},
        status="success",
        started_at=now,
        finished_at=now,
        toolset=VERSION,
    )
    return _record(writer, call=call)


def _record(writer: Writer, **fields: Any) -> CommitRecord:
    return CommitRecord(id=new_id(), at=commits.now(), by=writer.by, **fields)


def main(folder: Path, toolsets: int, calls: int, branches: int) -> None:
    make_toolsets(folder, toolsets)
    make_chat(folder, calls=calls, branches=branches)
    print(f"{folder}: {toolsets} toolsets, and {calls} calls in the chat {CHAT!r}")


if __name__ == "__main__":
    numbers = [int(text) for text in sys.argv[2:]]
    main(Path(sys.argv[1]), *numbers, *(400, 1000, 8)[len(numbers) :])
