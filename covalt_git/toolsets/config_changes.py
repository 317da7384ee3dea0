"""Changes of ``covalt.yaml``: reading its exact text, a copy of the project with another text, writing it.

The file may have errors or be missing, so nothing here needs its settings.  The bytes are exact, as in
:mod:`.file_changes`.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.git_store.outer_repository import UnknownRevisionError, write_folder
from covalt_git.manifests.machine_folders import config_link
from covalt_git.manifests.project_config import config_reading
from covalt_git.manifests.project_root import CONFIG, POLICY_TESTS
from covalt_git.manifests.state_files import LOCK_FOLDER
from covalt_git.manifests.toolset_files import STATE_FOLDER, toolset_ids
from covalt_git.system import atomic_write
from covalt_git.toolsets import file_changes
from covalt_git.toolsets.file_changes import MOST_EDITED, NotEditableError, moved
from covalt_git.toolsets.update_lock import locks_toolsets

if TYPE_CHECKING:
    from collections.abc import Iterator

MISSING = "missing"
"""The ``base`` of a change that creates the file."""


class ConfigText(NamedTuple):
    """The exact text of ``covalt.yaml``, and the SHA-256 of its bytes in hex; ``""`` and ``missing`` without a file."""

    text: str
    sha256: str


def read_config_text(root: Path) -> ConfigText:
    """Return the text of ``covalt.yaml``.

    Raises:
        NotEditableError: if it is a link, a folder, too large, not UTF-8, or cannot be read.
    """
    link = config_link(root)
    if link is not None:
        raise NotEditableError(link.message, hint=link.hint)
    file = root / CONFIG
    if file.is_dir():
        raise NotEditableError(
            f"{CONFIG} is a folder, and a file was expected",
            hint=f"move the folder away: mv {CONFIG} {CONFIG}.old, then open this page again",
        )
    if not file.exists():
        return ConfigText("", MISSING)
    if not file.is_file():
        raise NotEditableError(f"{CONFIG} is not a regular file", hint="replace it by a text file")
    try:
        content = file.read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise NotEditableError(
            f"{CONFIG} cannot be read: {reason}", hint=f"chmod u+rw {CONFIG}"
        ) from None
    if len(content) > MOST_EDITED:
        raise NotEditableError(
            f"{CONFIG} is larger than {MOST_EDITED >> 20} MiB", hint="use an editor of your machine"
        )
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise NotEditableError(
            f"{CONFIG} is not a text in UTF-8: line {line} has the byte 0x{content[error.start]:02x}",
            hint=f"save it as UTF-8 with an editor of your machine{_or_checkout(root)}",
        ) from None
    if "\0" in text:
        raise NotEditableError(
            f"{CONFIG} has a null character, so it is not a text",
            hint=f"use an editor of your machine{_or_checkout(root)}",
        )
    return ConfigText(text, hashlib.sha256(content).hexdigest())


def _or_checkout(root: Path) -> str:
    is_committed = committed_config(root) is not None
    return f", or restore git's last commit: git checkout HEAD -- {CONFIG}" if is_committed else ""


def committed_config(root: Path) -> bytes | None:
    """Return ``covalt.yaml`` of git's last commit; None if it has none."""
    with tempfile.TemporaryDirectory(prefix="covalt-git-") as name:
        folder = Path(name)
        try:
            write_folder(root, "HEAD", folder, only={CONFIG})
        except UnknownRevisionError:
            return None
        file = folder / CONFIG
        return file.read_bytes() if file.is_file() and not file.is_symlink() else None


@contextmanager
def copied_project(root: Path) -> Iterator[Path]:
    """Yield a temporary copy of a project with all toolsets, their states and locks, without ``covalt.yaml``."""
    folders = (STATE_FOLDER, LOCK_FOLDER, *toolset_ids(root / "toolsets"))
    with tempfile.TemporaryDirectory(prefix="covalt-git-") as name:
        copy = Path(name)
        (copy / "toolsets").mkdir()
        if (root / POLICY_TESTS).is_file() and not (root / POLICY_TESTS).is_symlink():
            shutil.copyfile(root / POLICY_TESTS, copy / POLICY_TESTS)
        file_changes.copy_folders(root, copy, folders)
        yield copy


def use_config(root: Path, copy: Path, content: bytes | None) -> None:
    """Write ``covalt.yaml`` to a copy, with the key files that it names; without a content, remove it."""
    if content is None:
        (copy / CONFIG).unlink(missing_ok=True)
        return
    atomic_write.replace(copy / CONFIG, content)
    config = config_reading(copy).value
    if config is not None:
        file_changes.copy_keys(root, copy, config)


@locks_toolsets
def replace_config(root: Path, content: bytes, *, base: str) -> None:
    """Write ``covalt.yaml``, all of it or nothing, if its bytes still have the SHA-256 ``base``.

    Raises:
        FileMovedError: if another program has changed, removed or created it.
        NotEditableError: as :func:`read_config_text`.
    """
    if read_config_text(root).sha256 != base:
        raise moved(CONFIG)
    atomic_write.replace(root / CONFIG, content)
