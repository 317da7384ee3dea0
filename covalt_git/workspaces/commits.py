"""Commit format, version 1: writing and reading the record in a commit message.

::

    tool_run: app-builder:write_file
                                            an empty line
    {"at":"...","by":"local","call":{...},"id":"0196...","v":1}
                                            an empty line
    Covalt-Source: tool_run
    Covalt-Source-Ref: 0196...
    Covalt-Status: success
    Covalt-Toolset: app-builder 1.0.0 sha256:...
    Covalt-Project: 5f2c...                 the commit of the project, on a node that follows a repository

The JSON line is RFC 8785.  The trailers repeat fields of the record for users of ``git log``; only the
source and the message are read back.

Anyone can write such a message with git, so a record counts only in the chat that created it.
``refs/covalt/foreign`` is a blob with the full ids of the foreign commits of a chat that look like records, one a line,
sorted.  A push adds its commits to the list under the chat's lock, before a branch moves to them.  If the push is
killed in between, ids of missing commits stay in the list, which is harmless.  Ids are never removed.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, get_args

from pydantic import ValidationError

from covalt_git import timestamps
from covalt_git.errors import CovaltError
from covalt_git.git_store.objects import CommitObject
from covalt_git.json_values import canonical_json
from covalt_git.models.calls import CallError, RenderPlan
from covalt_git.models.chats import WorkspaceManifest
from covalt_git.models.commit_record import CallRecord, CommitRecord, Source
from covalt_git.text import display
from covalt_git.workspaces.records import COMMITTER

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from covalt_git.git_store.store import GitStore
    from covalt_git.models.calls import PendingCall
    from covalt_git.workspaces.records import Records

FOREIGN = "refs/covalt/foreign"

_SOURCES: tuple[str, ...] = get_args(Source)
_SOURCE_TRAILER = "Covalt-Source: "
_REF_TRAILER = "Covalt-Source-Ref: "
_MAX_SUBJECT = 100
_BLANK = re.compile(f"[{display.CONTROLS} \xa0]+")
_ODD = re.compile(r"[^A-Za-z0-9._@+-]+")


def now() -> str:
    """Return the current time in the format of records."""
    return timestamps.now()


def one_line(text: str) -> str:
    """Return ``text`` in one line, for a subject or a trailer."""
    line = _BLANK.sub(" ", text).strip()
    return line.encode("utf-8", "replace").decode()


def _short(line: str) -> str:
    return line if len(line) <= _MAX_SUBJECT else line[: _MAX_SUBJECT - 1] + "…"


def author(by: str) -> str:
    """Return the git identity of a principal."""
    name = _ODD.sub("-", by).strip("-.") or "unknown"
    return f"{name} <{name}@covalt.invalid>"


def build(
    tree: str,
    parents: tuple[str, ...],
    source: Source,
    record: CommitRecord,
    records: Records,
    *,
    subject: str,
    message_id: str | None = None,
) -> CommitObject:
    """Return the commit for a record; large fields of the record are stored in ``records`` first."""
    fields = {"v": record.v} | record.model_dump(mode="json", exclude_defaults=True)
    line = records.encoded(fields)
    trailers = {
        "Covalt-Source": source,
        "Covalt-Source-Ref": record.id,
        "Covalt-Message": message_id,
        "Covalt-Status": record.call and record.call.status,
        "Covalt-Toolset": record.call and record.call.toolset.text,
        "Covalt-Project": record.call and record.call.toolset.commit,
    }
    footer = "\n".join(f"{key}: {one_line(value)}" for key, value in trailers.items() if value)
    return CommitObject(
        tree=tree,
        parents=parents,
        author=author(record.by),
        committer=COMMITTER,
        time=int(time.time()),
        message=f"{source}: {_short(one_line(subject))}\n\n{line.decode()}\n\n{footer}\n",
    )


def looks_like_record(message: str) -> bool:
    """Return whether a commit message has the trailer of a record.

    Only in such a message can :func:`read` find a record, in this version of covalt-git or a later one, whatever
    large fields the store has.
    """
    return _SOURCE_TRAILER in message


def source_ref(message: str) -> str | None:
    """Return the id that the trailers of a commit message give its record; None if they give none.

    The commit need not have a record of this id, because anyone can write such a message; :func:`read` checks it.
    """
    # The last one: the text of a message is above the trailers, and can have such a line.
    _, trailer, rest = message.rpartition(f"\n{_REF_TRAILER}")
    return rest.partition("\n")[0] if trailer else None


def recorded_tool(message: str) -> str | None:
    """Return the id of the tool whose call a commit message records; None if it records no call.

    Unlike :func:`read`, also for a foreign commit: its record counts for nothing, but its bytes are those of a call.
    If the message looks like a record that cannot be read, the id is empty.
    """
    if not looks_like_record(message):
        return None
    try:
        record = canonical_json.loads(message.split("\n\n", 2)[1])
    except (IndexError, canonical_json.NotJsonError):
        return ""
    if not isinstance(record, dict):
        return ""
    if "call" not in record:
        return None
    call = record["call"]
    tool_id = call.get("tool_id") if isinstance(call, dict) else None
    return tool_id if isinstance(tool_id, str) else ""


def read(
    oid: str,
    commit: CommitObject,
    chat_id: str,
    records: Records,
    *,
    foreign: bool = False,
    outline: bool = False,
) -> WorkspaceManifest:
    """Return a commit as a workspace manifest; ``outline`` as of :meth:`.Records.expand`.

    If a commit is ``foreign``, was created with git alone, or has an altered record, its source is ``push``: only
    its tree, parents, author and time are used, not its message.
    """
    message = "" if foreign else commit.message
    source, record, trailers = _parse(message, records, outline=outline)
    subject = one_line(commit.message.partition("\n")[0])
    if record is None:
        source = "push"
        record = CommitRecord(
            id=oid, at=_written(commit.time), by=commit.author.partition(" <")[0] or "unknown"
        )
    return WorkspaceManifest(
        id=oid,
        chat_id=chat_id,
        tree_id=commit.tree,
        parents=commit.parents,
        created_at=record.at,
        source=source,
        source_ref=record.id,
        message_id=trailers.get("Covalt-Message"),
        subject=_short(subject.removeprefix(f"{source}:").strip()),
        record=record,
    )


def _written(seconds: int) -> str:
    """Return a commit's time in the format of records; a time out of range becomes 1970."""
    try:
        at = datetime.fromtimestamp(seconds, UTC)
    except (OSError, OverflowError, ValueError):
        at = datetime.fromtimestamp(0, UTC)
    return at.isoformat().replace("+00:00", "Z")


def _parse(
    message: str, records: Records, *, outline: bool
) -> tuple[Any, CommitRecord | None, dict[str, str]]:
    parts = message.split("\n\n", 2)
    if len(parts) != 3:  # noqa: PLR2004 - subject, record, trailers
        return None, None, {}
    source = parts[0].partition(":")[0]
    trailers = dict(line.split(": ", 1) for line in parts[2].splitlines() if ": " in line)
    if source not in _SOURCES or trailers.get("Covalt-Source") != source:
        return None, None, {}
    try:
        fields = records.expand(canonical_json.loads(parts[1]), outline=outline)
        record = CommitRecord.model_validate(fields)
        # The plan is any JSON in the record, and pages take it for a valid one.
        if record.call is not None and record.call.render_plan is not None:
            RenderPlan.model_validate(record.call.render_plan)
    except (canonical_json.NotJsonError, ValidationError):
        return None, None, {}
    return source, record, trailers


def unfinished(call: PendingCall, code: str, message: str) -> CallRecord:
    """Return the record of a call that ended without a result."""
    return CallRecord(
        tool_id=call.tool_id,
        args=call.args,
        status="error",
        error=CallError(code=code, message=message),
        started_at=call.started_at,
        finished_at=now(),
        toolset=call.toolset,
        execution_id=call.execution_id,
        parent=call.parent,
        line=call.line,
        waived_by=call.waived_by,
        token=call.token,
        role=call.role,
    )


@dataclass(slots=True)
class ForeignCommits:
    """The list of foreign commits of one open store; it is read again when its ref has moved."""

    store: GitStore
    _at: str | None = None
    _ids: frozenset[str] = frozenset()
    _covered: set[str] = field(default_factory=set)

    def __contains__(self, oid: str) -> bool:
        """Return whether a commit that a ref reaches is listed.

        The list is read again for each commit that is not covered (:meth:`cover`), because a push may have changed it.
        """
        if oid not in self._covered:
            self.ids()
            self._covered.add(oid)
        return oid in self._ids

    def cover(self, parents: Iterable[str]) -> None:
        """Note that the list need not be read for the parents of a commit: foreign parents were listed before it."""
        self._covered.update(parents)

    def add(self, oids: Collection[str]) -> None:
        """Add commits to the list, durably, before a ref reaches them; the caller holds the chat's lock."""
        listed = self.ids()
        if listed.issuperset(oids):
            return
        lines = "".join(f"{oid}\n" for oid in sorted(listed.union(oids)))
        if not self.store.swap_ref(FOREIGN, self._at, self.store.write_blob(lines.encode())):
            raise CovaltError("another process lists this chat's foreign commits", hint="try again")

    def ids(self) -> frozenset[str]:
        """Return the listed ids."""
        at = self.store.read_ref(FOREIGN)
        if at != self._at:
            lines = b"" if at is None else self.store.read_blob(at)
            self._ids = frozenset(lines.decode("utf-8", "replace").split())
            self._at = at
            self._covered.clear()
        return self._ids
