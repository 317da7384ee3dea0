"""Proof that commands of this user made the ``data/`` of a project.

``data/`` has chats, pending approvals and tokens, which act as the user's own.  Another user's can arrive in many
ways: in a submodule, an archive, a work tree elsewhere, or a repository whose index no longer lists it.  So a command
that creates ``data/`` writes a random id to it, and stores the same id in the user's configuration folder, where no
project can write.  A ``data/`` without a known id is not used until its user trusts it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from typing import TYPE_CHECKING

from covalt_git.json_values import canonical_json
from covalt_git.system.private_files import user_folder
from covalt_git.trust.consent import Consent

if TYPE_CHECKING:
    from pathlib import Path

DATA = "data"
FOLDER_ID = f"{DATA}/folder-id"
_KNOWN = "data-folders"
_DRAFT = ".folder-id-"
_MOST_BYTES = 10_000


def folder_id(root: Path) -> str | None:
    """Return the id in ``data/`` that a command of this user wrote, if there is one."""
    return next((line for line in _ids(root) if _known(line).exists), None)


def is_own(root: Path) -> bool:
    """Return whether commands of this user made ``data/``; create it, or its id, if it is missing or empty."""
    if folder_id(root) is not None:
        return True
    try:
        if not _is_empty(root) or _is_of_another_user(root):
            return False
        adopt(root)
        if (root / DATA).stat().st_mode & 0o077:  # as `mkdir data` makes it
            (root / DATA).chmod(0o700)
    except OSError:  # such as a read-only project; without data/ it has no chats of another user
        return not (root / DATA).exists()
    return True


def adopt(root: Path, reason: str | None = None) -> None:
    """Create ``data/`` for this user, or declare an existing one to be theirs.

    Ids in it may be those of another user, who knows them and can write them to other folders.  So a new id is added.

    Raises:
        OSError: if it cannot be written.
    """
    text = secrets.token_hex(16)
    # The id is stored in the configuration folder first. If the process is killed in between, an id without a folder
    # harms nothing.
    _known(text).give(reason, adopted=not _is_empty(root))
    data, file = root / DATA, root / FOLDER_ID
    with contextlib.suppress(FileExistsError):
        data.mkdir(mode=0o700)
    if not _ids(root):  # a link, a FIFO or a file that is too large, which could not be read back
        file.unlink(missing_ok=True)
    # It is linked after it is complete, so that no other process reads a part of it.
    draft = data / f"{_DRAFT}{text}"
    try:
        _append(draft, text)
        os.link(draft, file)
    except FileExistsError:
        _append(file, text)
    finally:
        draft.unlink(missing_ok=True)


def forget_adopted(root: Path) -> None:
    """Withdraw the trust in a ``data/`` that another user made."""
    for line in _ids(root):
        if (_known(line).content() or {}).get("adopted"):
            _known(line).withdraw()


def known_folders() -> Path:
    """Return the folder whose files change when a ``data/`` becomes this user's."""
    return user_folder() / _KNOWN


def _known(text: str) -> Consent:
    name = canonical_json.digest({"data": text}).partition(":")[2]
    return Consent(known_folders() / f"{name}.json", {"data": text}, "a data/ of this user")


def _ids(root: Path) -> list[str]:
    try:
        # O_NONBLOCK, because a FIFO of a clone would block the open for ever; O_NOFOLLOW, because a link could lead
        # to the id of another project.
        handle = os.open(f"{root}/{FOLDER_ID}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        with open(handle, encoding="ascii") as lines:  # noqa: PTH123 - of a descriptor
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
                return []
            return lines.read().split()
    except (OSError, UnicodeDecodeError):
        return []


def _append(file: Path, text: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    with os.fdopen(os.open(file, flags, 0o600), "w", encoding="ascii") as stream:
        stream.write(f"{text}\n")


def _is_of_another_user(root: Path) -> bool:
    """Return whether ``data/`` exists and another user could put chats into it at any time."""
    try:
        return (root / DATA).stat().st_uid != os.geteuid()
    except FileNotFoundError:
        return False


def _is_empty(root: Path) -> bool:
    """Return whether ``data/`` has nothing but the id that another process is writing."""
    try:
        return all(file.name.startswith(_DRAFT) for file in (root / DATA).iterdir())
    except FileNotFoundError:
        return True
