"""Check of the history of a chat: signatures, digests, parents, and the list of foreign commits.

What is checked of a commit that covalt-git made in this chat:

- its bytes have its id, and its parents are commits that the store has;
- its signature is valid and of a trusted key; without one, no commit before it is signed;
- its record can be read, its trailers repeat it, and large values have their digests;
- the arguments are those of its approval.

Foreign commits are counted, not checked: what a push or an import brought counts for nothing anyway.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.audit.events import digest_of
from covalt_git.credentials.ssh_signatures import SshSignature
from covalt_git.errors import CovaltError
from covalt_git.git_store.graph import parents_first
from covalt_git.git_store.objects import (
    decode_commit,
    is_object_id,
    split_signature,
)
from covalt_git.workspaces import commits
from covalt_git.workspaces.chat import DELETED, HEADS
from covalt_git.workspaces.commit_key import NAMESPACE
from covalt_git.workspaces.records import references

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from covalt_git.git_store.objects import CommitObject
    from covalt_git.models.calls import Approval
    from covalt_git.workspaces.chat import ChatStore

    IsTrusted = Callable[[bytes, int], bool]


class Misfit(NamedTuple):
    """The first commit that does not fit: its id, empty if it is about the whole chat, and why."""

    commit: str
    why: str
    record_id: str | None = None


class Verified(NamedTuple):
    """Numbers of the checked commits of a chat, and the first one that does not fit, parents first."""

    signed: int = 0
    unsigned: int = 0
    foreign: int = 0
    misfit: Misfit | None = None


class _MisfitError(CovaltError):
    """A commit, or the list of foreign commits, does not fit."""


def verify_chat(chat: ChatStore, is_trusted: IsTrusted) -> Verified:
    """Check the commits of all branches of a chat, also of deleted ones.

    ``is_trusted`` returns whether a public key may sign commits at a time, in seconds since 1970.
    """
    try:
        return _Verification(chat, is_trusted).run()
    except CovaltError as error:
        return Verified(misfit=Misfit("", error.message))


class _Verification:
    def __init__(self, chat: ChatStore, is_trusted: IsTrusted) -> None:
        self.chat = chat
        self.is_trusted = is_trusted
        self.format = chat.store.object_format
        self.approvals: Mapping[str, Approval] = {}
        self.foreign: frozenset[str] = frozenset()
        self.after_signed: set[str] = set()
        self.first_signed_at = ""
        self.verified = Verified()

    def run(self) -> Verified:
        chat = self.chat
        parents: dict[str, tuple[str, ...]] = {}
        waiting = [*chat.store.refs(HEADS).values(), *chat.store.refs(DELETED).values()]
        while waiting:
            oid = waiting.pop()
            if oid in parents:
                continue
            try:
                parents[oid] = self._commit(oid)[1].parents
            except CovaltError as error:
                return self._misfit(oid, error.message)
            waiting += parents[oid]
        self._read_foreign()
        self.approvals = {approval.execution_id: approval for approval in chat.approvals()}
        unsigned: list[tuple[str, str]] = []
        for oid in parents_first(parents):
            try:
                at = self._check(oid, parents[oid])
            except CovaltError as error:
                return self._misfit(oid, error.message)
            if at is not None:
                unsigned.append((at, oid))
        # On another branch than the signed ones: it is not above one, but its own record says that it is later.
        late = [row for row in unsigned if self.first_signed_at and row[0] > self.first_signed_at]
        if late:
            return self._misfit(
                min(late)[1], "it is not signed, and earlier commits of the chat are"
            )
        return self.verified

    def _misfit(self, oid: str, why: str) -> Verified:
        record_id = None
        with suppress(CovaltError):
            record_id = commits.source_ref(self._commit(oid)[1].message)
        return self.verified._replace(misfit=Misfit(oid, why, record_id))

    def _commit(self, oid: str) -> tuple[bytes, CommitObject]:
        # The store compares the content of an object with its id.
        content = self.chat.store.read_content(oid, b"commit")
        try:
            return content, decode_commit(content)
        except ValueError as error:
            raise _MisfitError(f"it is damaged: {error}") from None

    def _read_foreign(self) -> None:
        at = self.chat.store.read_ref(commits.FOREIGN)
        text = b"" if at is None else self.chat.store.read_blob(at)
        listed = text.decode("ascii", "replace").splitlines()
        as_written = "".join(f"{oid}\n" for oid in sorted({*listed})).encode()
        if text != as_written or not all(map(is_object_id, listed)):
            raise _MisfitError(f"the list of foreign commits, {commits.FOREIGN}, was altered")
        self.foreign = frozenset(listed)

    def _check(self, oid: str, parents: tuple[str, ...]) -> str | None:
        """Check a commit, after its parents; return its time if it is unsigned and may be."""
        content, commit = self._commit(oid)
        after_signed = not self.after_signed.isdisjoint(parents)
        if after_signed:
            self.after_signed.add(oid)
        # A commit by git alone does not look like a record; it is never in the list, and counts as foreign.
        if oid in self.foreign or not commits.looks_like_record(commit.message):
            self.verified = self.verified._replace(foreign=self.verified.foreign + 1)
            return None
        payload, armored = split_signature(content, self.format)
        if armored:
            self._check_signature(payload, armored, commit.time)
            self.after_signed.add(oid)
        elif after_signed:
            raise _MisfitError(
                "it is not signed, and a commit before it is; if it was pushed, it is not in the list of foreign commits"
            )
        at = self._check_record(oid, commit, is_signed=bool(armored))
        if not armored:
            self.verified = self.verified._replace(unsigned=self.verified.unsigned + 1)
            return at
        self.verified = self.verified._replace(signed=self.verified.signed + 1)
        self.first_signed_at = min(self.first_signed_at or at, at)
        return None

    def _check_signature(self, payload: bytes, armored: bytes, time: int) -> None:
        signature = SshSignature.parse(armored)
        if signature is None:
            raise _MisfitError("its signature is malformed, or not one of SSH")
        if not signature.is_valid(payload, NAMESPACE.encode()):
            raise _MisfitError(
                f"its content does not match its signature by the key {signature.fingerprint}"
            )
        if not self.is_trusted(signature.key, time):
            raise _MisfitError(
                f"it is signed with the key {signature.fingerprint}, which is not trusted"
            )

    def _check_record(self, oid: str, commit: CommitObject, *, is_signed: bool) -> str:
        """Check the record of a commit of this chat; return its time."""
        manifest = self.chat.outline(oid)
        if manifest.source == "push":
            raise _MisfitError(
                "its record cannot be read, and it is not in the list of foreign commits"
            )
        for reference in references(commit.message):
            self.chat.records.content(
                reference
            )  # raises an error if the bytes are missing or others
        record = manifest.record
        call = record.call
        written = _trailers(commit.message)
        expected = {"Covalt-Source-Ref": record.id}
        if call is not None:
            toolset = " ".join(call.toolset.model_dump().values())
            expected |= {"Covalt-Status": call.status, "Covalt-Toolset": commits.one_line(toolset)}
        for name, value in expected.items():
            if written.get(name) != value:
                raise _MisfitError(f"its trailer {name} differs from its record")
        approval = call and call.execution_id and self.approvals.get(call.execution_id)
        if call and approval:
            reviewed = (approval.call_id, approval.tool_id, approval.args_digest)
            if reviewed != (record.id, call.tool_id, digest_of(call.args)):
                raise _MisfitError("its arguments are not those of its approval")
        # An unsigned call may have begun before the key was configured, and ended after that.
        return record.at if call is None or is_signed else call.started_at


def _trailers(message: str) -> dict[str, str]:
    footer = message.rpartition("\n\n")[2]
    return dict(line.split(": ", 1) for line in footer.splitlines() if ": " in line)
