"""The key that signs the commits of chats: ``audit.sign_key`` of ``covalt.yaml``.

All commits that a writer makes are signed, not only those of calls: an agent obeys a forged message as well, and only so
an unsigned commit is known to be foreign.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from covalt_git.credentials.ssh_signatures import SigningKey, SigningKeyError
from covalt_git.git_store.objects import encode_commit
from covalt_git.system.file_cache import FileCache
from covalt_git.trust import NotTrustedError, sign_key

if TYPE_CHECKING:
    from covalt_git.git_store.objects import CommitObject
    from covalt_git.models.project_config import WorkspaceConfig

NAMESPACE = "git"
"""The SSH signature namespace of git's commits."""

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


def signed(commit: CommitObject, key: SigningKey | None) -> CommitObject:
    """Return a commit with its signature, as ``git commit -S`` makes it."""
    if key is None:
        return commit
    return commit._replace(signature=key.sign(encode_commit(commit), NAMESPACE.encode()))
