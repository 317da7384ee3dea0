"""Operations on what was done in a project: export of all events, and check of the history of chats."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from typing import TYPE_CHECKING

from pydantic import Field

from covalt_git.audit.events import EventFilter, write_events
from covalt_git.audit.trusted_keys import TrustedKeys
from covalt_git.audit.verification import verify_chat
from covalt_git.names import ToolId
from covalt_git.operations.context import Context
from covalt_git.operations.registry import Request, Result, ResultFile, operation
from covalt_git.text.media_types import TEXT
from covalt_git.timestamps import parsed
from covalt_git.workspaces.commit_key import signing_key

if TYPE_CHECKING:
    from covalt_git.audit.verification import Verified

_ADMINS = "read who did what"


class ExportAudit(Request):
    """Request: which events to export."""

    since: str | None = Field(
        None, max_length=40, description="Only events from this time on: 2026-11-20T17:24:00Z."
    )
    tool_id: str | None = Field(None, max_length=200, description="Only events of this tool.")
    chat_id: str | None = Field(None, max_length=200, description="Only events of this chat.")


class VerifyAudit(Request):
    """Request: which chats to check, and whose signatures to accept."""

    chat_id: str | None = Field(None, max_length=200, description="The chat; default: all chats.")
    allowed_signers: tuple[str, ...] | None = Field(
        None,
        max_length=1000,
        description="Lines of OpenSSH's allowed-signers format; default: the public key of audit.sign_key.",
    )


class CommitMisfit(Result):
    """The first commit that does not fit."""

    commit: str = Field(description="Its id; empty if it is about the whole chat.")
    record_id: str | None = Field(description="The id of its record, such as the call.")
    why: str


class ChatVerified(Result):
    """The check of one chat."""

    chat_id: str
    signed: int = Field(description="Commits with a valid signature of a trusted key.")
    unsigned: int = Field(description="Commits that were made before the first signed one.")
    foreign: int = Field(description="Commits of pushes and imports, which are not checked.")
    misfit: CommitMisfit | None = Field(
        description="The first commit that does not fit; the numbers are of the commits before it."
    )


class AuditVerified(Result):
    """The check of the history of chats."""

    fits: bool
    chats: tuple[ChatVerified, ...]


@operation(errors=(404,), admin=_ADMINS)
def export_audit(context: Context, request: ExportAudit) -> ResultFile:
    """Export calls, approvals, and refused and asked calls as JSON lines, in the order of their times and ids.

    They have digests in place of arguments and results.
    """
    tool_id = None if request.tool_id is None else str(ToolId.parse(request.tool_id))
    since = "" if request.since is None else parsed(request.since)
    chats = context.project.chats
    if request.chat_id is not None:
        chats.check_exists(request.chat_id)
    # The caller closes the file after it was sent; an error here closes it at once.
    with ExitStack() as stack:
        file = stack.enter_context(tempfile.TemporaryFile())
        selection = EventFilter(since, tool_id, request.chat_id)
        size = write_events(context.root, chats, selection, file)
        file.seek(0)
        stack.pop_all()
    return ResultFile("audit.jsonl", TEXT, file, size)


@operation(errors=(404,), admin=_ADMINS)
def verify_audit(context: Context, request: VerifyAudit) -> AuditVerified:
    """Check the history of chats: signatures, digests, parents, and the lists of foreign commits."""
    keys = _trusted_keys(context, request)
    chats = context.project.chats
    ids = chats.ids() if request.chat_id is None else [request.chat_id]
    rows = []
    for chat_id in ids:
        with chats.open(chat_id) as chat:
            rows.append(_row(chat_id, verify_chat(chat, keys.is_trusted)))
    return AuditVerified(fits=all(row.misfit is None for row in rows), chats=tuple(rows))


def _trusted_keys(context: Context, request: VerifyAudit) -> TrustedKeys:
    if request.allowed_signers is not None:
        return TrustedKeys.parse(request.allowed_signers)
    key = signing_key(context.project.config.workspace)
    return TrustedKeys({}) if key is None else TrustedKeys.of_key(key.public)


def _row(chat_id: str, verified: Verified) -> ChatVerified:
    misfit = verified.misfit
    return ChatVerified(
        chat_id=chat_id,
        signed=verified.signed,
        unsigned=verified.unsigned,
        foreign=verified.foreign,
        misfit=misfit and CommitMisfit.of(misfit),
    )
