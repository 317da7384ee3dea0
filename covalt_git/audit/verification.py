"""Check of the history of a chat: signatures, digests, parents, and the list of foreign commits.

What is checked of a commit that covalt-git made in this chat:

- its bytes have its id, and its parents are commits that the store has;
- its signature is valid and of a trusted key; without one, no commit before it is signed;
- its record can be read, its trailers repeat it, and large values have their digests;
- the arguments are those of its approval;
- if it is signed, it names this chat, or one from which the chat was forked.

Foreign commits are counted, not checked: what a push or an import brought counts for nothing anyway.  Which commits are
foreign is in a list that anyone can write; so for a commit that is signed, or above a signed one, a signed statement
must say it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.audit.events import digest_of
from covalt_git.audit.signed_commits import MisfitError, Statements, check_signature, trailers
from covalt_git.errors import CovaltError
from covalt_git.git_store.graph import parents_first
from covalt_git.git_store.objects import decode_commit, is_object_id
from covalt_git.workspaces import commits
from covalt_git.workspaces.chat import DELETED, HEADS
from covalt_git.workspaces.commit_key import CHAT_TRAILER
from covalt_git.workspaces.records import references

if TYPE_CHECKING:
    from collections.abc import Mapping

    from covalt_git.audit.signed_commits import IsTrusted
    from covalt_git.git_store.objects import CommitObject
    from covalt_git.models.calls import Approval
    from covalt_git.workspaces.chat import ChatStore


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
        self.statements = Statements()
        self.after_signed: set[str] = set()
        self.after_named: set[str] = set()
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
        self._check_substitutes()
        self._read_foreign()
        self.statements = Statements.read(chat.store, chat.id, parents, self.is_trusted)
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
        if self.statements.problem:
            return self.verified._replace(misfit=Misfit("", self.statements.problem))
        return self.verified

    def _check_substitutes(self) -> None:
        """Check that git shows the commits which are checked here, and not others in their place."""
        store = self.chat.store
        substitutes = store.ref_names("refs/replace/")
        substitutes += [name for name in ("info/grafts", "shallow") if (store.path / name).exists()]
        if substitutes:
            raise MisfitError(f"{substitutes[0]} of its store lets git show another history")

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
            raise MisfitError(f"it is damaged: {error}") from None

    def _read_foreign(self) -> None:
        at = self.chat.store.read_ref(commits.FOREIGN)
        text = b"" if at is None else self.chat.store.read_blob(at)
        listed = text.decode("ascii", "replace").splitlines()
        as_written = "".join(f"{oid}\n" for oid in sorted({*listed})).encode()
        if text != as_written or not all(map(is_object_id, listed)):
            raise MisfitError(f"the list of foreign commits, {commits.FOREIGN}, was altered")
        self.foreign = frozenset(listed)

    def _check(self, oid: str, parents: tuple[str, ...]) -> str | None:
        """Check a commit, after its parents; return its time if it is unsigned and may be."""
        content, commit = self._commit(oid)
        after_signed = not self.after_signed.isdisjoint(parents)
        if after_signed:
            self.after_signed.add(oid)
        after_named = not self.after_named.isdisjoint(parents)
        if after_named:
            self.after_named.add(oid)
        # A commit by git alone does not look like a record; it is never in the list, and counts as foreign.
        is_record = commits.looks_like_record(commit.message)
        is_stated, is_listed = oid in self.statements.foreign, oid in self.foreign
        if is_record and is_stated and not is_listed:
            raise MisfitError("it was pushed, and is not in the list of foreign commits")
        if is_record and is_listed and not is_stated:
            self._check_unstated(content, after_signed=after_signed)
        if is_listed or not is_record:
            self.verified = self.verified._replace(foreign=self.verified.foreign + 1)
            return None
        is_signed = check_signature(content, self.format, self.is_trusted)
        if is_signed:
            self.after_signed.add(oid)
            self._check_chat(oid, commit.message, after_named=after_named)
        elif after_signed:
            raise MisfitError(
                "it is not signed, and a commit before it is; if it was pushed, it is not in the list of foreign commits"
            )
        at = self._check_record(oid, commit, is_signed=is_signed)
        if not is_signed:
            self.verified = self.verified._replace(unsigned=self.verified.unsigned + 1)
            return at
        self.verified = self.verified._replace(signed=self.verified.signed + 1)
        self.first_signed_at = min(self.first_signed_at or at, at)
        return None

    def _check_unstated(self, content: bytes, *, after_signed: bool) -> None:
        """Check a commit that only the list calls foreign: who has no key can add any commit to the list."""
        stated = (
            "and no signed statement says that it is foreign, as the list of foreign commits does"
        )
        if after_signed:
            raise MisfitError(f"a commit before it is signed, {stated}")
        is_signed = False
        with suppress(MisfitError):  # what another key signed, or was changed, is not of this chat
            is_signed = check_signature(content, self.format, self.is_trusted)
        if is_signed:
            raise MisfitError(f"it is signed, {stated}")

    def _check_chat(self, oid: str, message: str, *, after_named: bool) -> None:
        """Check that a signed commit is of this chat, or of one from which the chat was forked."""
        chat_id = trailers(message).get(CHAT_TRAILER)
        if chat_id is None:
            # Early versions did not write the name. So a commit without it cannot come after one that has it.
            if after_named:
                raise MisfitError("it names no chat, and a commit before it does")
            return
        self.after_named.add(oid)
        if oid not in self.statements.commits.get(chat_id, ()):
            raise MisfitError(f"it was made in the chat {chat_id!r}, and signed there")

    def _check_record(self, oid: str, commit: CommitObject, *, is_signed: bool) -> str:
        """Check the record of a commit of this chat; return its time."""
        manifest = self.chat.outline(oid)
        if manifest.source == "push":
            raise MisfitError(
                "its record cannot be read, and it is not in the list of foreign commits"
            )
        for reference in references(commit.message):
            self.chat.records.content(
                reference
            )  # raises an error if the bytes are missing or others
        record = manifest.record
        call = record.call
        written = trailers(commit.message)
        expected = {"Covalt-Source-Ref": record.id}
        if call is not None:
            toolset = call.toolset
            expected |= {
                "Covalt-Status": call.status,
                "Covalt-Toolset": commits.one_line(toolset.text),
            }
            if toolset.commit is not None:
                expected["Covalt-Project"] = toolset.commit
        for name, value in expected.items():
            if written.get(name) != value:
                raise MisfitError(f"its trailer {name} differs from its record")
        approval = call and call.execution_id and self.approvals.get(call.execution_id)
        if call and approval:
            reviewed = (approval.call_id, approval.tool_id, approval.args_digest)
            if reviewed != (record.id, call.tool_id, digest_of(call.args)):
                raise MisfitError("its arguments are not those of its approval")
        # An unsigned call may have begun before the key was configured, and ended after that.
        return record.at if call is None or is_signed else call.started_at
