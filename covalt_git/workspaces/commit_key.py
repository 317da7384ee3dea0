"""The key that signs the commits of chats: ``audit.sign_key`` of ``covalt.yaml``.

All commits that a writer makes are signed, not only those of calls: an agent obeys a forged message as well, and only so
an unsigned commit is known to be foreign.

A signed commit names its chat in the trailer ``Covalt-Chat``, because a key signs for all chats.  What else
``audit verify`` must be able to trust is stated in signed commits at ``refs/covalt/statements``, each with the one before it
as its parent, and these messages::

    foreign commits                 the chat lists these commits as foreign

    <an id a line>

    Covalt-Chat: c1

    fork of c1                      the chat is a fork, and has the ancestors of these commits from its origin

    <an id a line>

    Covalt-Chat: c2

Each statement counts alone.  So the writer need not trust those before it, which others may have changed.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from covalt_git.credentials.ssh_signatures import SigningKey, SigningKeyError
from covalt_git.errors import CovaltError
from covalt_git.git_store.objects import CommitObject, encode_commit
from covalt_git.system.file_cache import FileCache
from covalt_git.trust import NotTrustedError, sign_key
from covalt_git.workspaces.records import COMMITTER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from covalt_git.git_store.store import GitStore
    from covalt_git.models.project_config import WorkspaceConfig

NAMESPACE = "git"
"""The SSH signature namespace of git's commits."""

CHAT_TRAILER = "Covalt-Chat"
STATEMENTS = "refs/covalt/statements"
FOREIGN_COMMITS = "foreign commits"
FORK_OF = "fork of "

_KEYS = FileCache()


def signing_key(config: WorkspaceConfig) -> SigningKey | None:
    """Return the key that signs commits; None if they are not signed.

    Raises:
        SigningKeyError: if the key cannot be used.
        NotTrustedError: if the user of this machine has not trusted its use.
    """
    key = config.commit_key
    if key is None:
        return None
    if not key.is_trusted:
        raise NotTrustedError([sign_key(key.file)])
    file = Path(key.file).expanduser()
    # Of the real path: a link outside of the project may lead into it, where a pull changes the key.
    if file.resolve().is_relative_to(key.root.resolve()):
        raise SigningKeyError(
            f"the key {key.file!r} is in the project, where a pull could change it and a clone has it",
            hint="move it out of the project, and write its new path in audit.sign_key of covalt.yaml",
        )
    return _KEYS.get(file, [file], lambda: SigningKey.read(file))


def signed(commit: CommitObject, key: SigningKey | None, chat_id: str) -> CommitObject:
    """Return a commit of a chat with its signature, as ``git commit -S`` makes it; its message ends with trailers."""
    if key is None:
        return commit
    commit = commit._replace(message=f"{commit.message}{CHAT_TRAILER}: {chat_id}\n")
    return commit._replace(signature=key.sign(encode_commit(commit), NAMESPACE.encode()))


def add_statement(
    store: GitStore, key: SigningKey | None, chat_id: str, subject: str, oids: Iterable[str]
) -> None:
    """Add a signed statement about commits to a chat, durably; nothing if commits are not signed.

    The caller holds the chat's lock.
    """
    lines = sorted(oids)
    if key is None or not lines:
        return
    newest = store.read_ref(STATEMENTS)
    statement = CommitObject(
        tree=store.write_tree([]),
        parents=() if newest is None else (newest,),
        author=COMMITTER,
        committer=COMMITTER,
        time=int(time.time()),
        message="\n".join([subject, "", *lines, "", ""]),
    )
    if not store.swap_ref(STATEMENTS, newest, store.write_commit(signed(statement, key, chat_id))):
        raise CovaltError("another process adds statements to this chat", hint="try again")
