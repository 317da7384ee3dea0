"""Signatures of commits, and the signed statements of a chat about its commits."""

from __future__ import annotations

from collections import defaultdict
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.credentials.ssh_signatures import SshSignature
from covalt_git.errors import CovaltError
from covalt_git.git_store.graph import ancestors
from covalt_git.git_store.objects import decode_commit, encode_commit, split_signature
from covalt_git.workspaces.commit_key import (
    CHAT_TRAILER,
    FOREIGN_COMMITS,
    FORK_OF,
    NAMESPACE,
    STATEMENTS,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from covalt_git.git_store.store import GitStore

    IsTrusted = Callable[[bytes, int], bool]


class MisfitError(CovaltError):
    """A commit, the list of foreign commits, or a statement does not fit."""


def check_signature(content: bytes, object_format: str, is_trusted: IsTrusted) -> bool:
    """Check the signature of a commit, if it has one; return whether it has.

    Raises:
        MisfitError: if the signature is not as covalt-git writes it, not of the content, or not of a trusted key.
    """
    payload, armored = split_signature(content, object_format)
    if not armored:
        return False
    signature = SshSignature.parse(armored)
    # The id of a commit also depends on the form and the place of its signature. Without this check, an attacker could make
    # a second commit that has another id and the same valid signature.
    commit = decode_commit(payload)
    if signature is None or content != encode_commit(
        commit._replace(signature=signature.armored), object_format
    ):
        raise MisfitError("its signature is malformed, or not as covalt-git writes it")
    if not signature.is_valid(payload, NAMESPACE.encode()):
        raise MisfitError(
            f"its content does not match its signature by the key {signature.fingerprint}"
        )
    if not is_trusted(signature.key, commit.time):
        raise MisfitError(
            f"it is signed with the key {signature.fingerprint}, which is not trusted at its time"
        )
    return True


def trailers(message: str) -> dict[str, str]:
    """Return the trailers of a commit message."""
    footer = message.rpartition("\n\n")[2]
    return dict(line.split(": ", 1) for line in footer.splitlines() if ": " in line)


class _Statement(NamedTuple):
    chat_id: str
    subject: str
    oids: tuple[str, ...]


class Statements(NamedTuple):
    """What the signed statements of a chat say.

    ``commits`` has the commits that a chat can have made, by its id: those of the chat itself, and for each chat from which
    it was forked, the ancestors of the fork point.  ``problem`` is why a statement does not count, nor those before it.
    """

    foreign: frozenset[str] = frozenset()
    commits: Mapping[str, Collection[str]] = MappingProxyType({})
    problem: str = ""

    @classmethod
    def read(
        cls,
        store: GitStore,
        chat_id: str,
        parents: Mapping[str, tuple[str, ...]],
        is_trusted: IsTrusted,
    ) -> Statements:
        """Read and check the statements of a chat; ``parents`` has all commits of its branches."""
        statements, problem = _read(store, is_trusted)
        reach: defaultdict[str, set[str]] = defaultdict(set)
        reach[chat_id] = {*parents}
        waiting = [chat_id]
        for own_id in waiting:  # the loop adds commits to it
            for statement in statements:
                if statement.chat_id != own_id or not statement.subject.startswith(FORK_OF):
                    continue
                origin = statement.subject.removeprefix(FORK_OF)
                reached = ancestors(lambda oid: parents.get(oid, ()), statement.oids)
                shared = reach[own_id].intersection(reached)
                if not reach[origin].issuperset(shared):
                    reach[origin] |= shared
                    waiting.append(origin)
        foreign = (
            oid
            for statement in statements
            if statement.subject == FOREIGN_COMMITS
            for oid in statement.oids
            if oid in reach[statement.chat_id]
        )
        return cls(frozenset(foreign), reach, problem)


def _read(store: GitStore, is_trusted: IsTrusted) -> tuple[list[_Statement], str]:
    """Return the statements, newest first, and why the one after them does not count."""
    statements: list[_Statement] = []
    oid = store.read_ref(STATEMENTS)
    while oid is not None:
        try:
            content = store.read_content(oid, b"commit")
            commit = decode_commit(content)
            if not check_signature(content, store.object_format, is_trusted):
                raise MisfitError("it is not signed")
            subject, lines, _ = commit.message.split("\n\n")
            chat_id = trailers(commit.message)[CHAT_TRAILER]
            if subject != FOREIGN_COMMITS and not subject.startswith(FORK_OF):
                raise MisfitError("it is another commit")
        except (CovaltError, ValueError, KeyError) as error:
            why = error.message if isinstance(error, CovaltError) else "it is malformed"
            return statements, f"the statement {oid} of {STATEMENTS} does not count: {why}"
        statements.append(_Statement(chat_id, subject, tuple(lines.split("\n"))))
        oid = next(iter(commit.parents), None)
    return statements, ""
