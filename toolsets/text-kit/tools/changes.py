"""Changes of several files by a patch, which are written completely or not at all."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tools.patches import FilePatch, apply_hunks, read_patch
from tools.texts import NotText, existing_file, read_all_lines

from covalt_toolset import get_context

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True)
class Change:
    """The change of one file by a patch.

    Attributes:
        patch: the part of the patch for this file.
        file: the path of the file.
        content: the new content of the file; None if the patch deletes it.
    """

    patch: FilePatch
    file: Path
    content: bytes | None

    @property
    def what(self) -> str:
        """The kind of the change: ``deleted``, ``created`` or ``changed``."""
        if self.content is None:
            return "deleted"
        return "created" if self.patch.old is None else "changed"

    @property
    def added(self) -> int:
        """Number of added lines."""
        return sum(hunk.added for hunk in self.patch.hunks)

    @property
    def removed(self) -> int:
        """Number of removed lines."""
        return sum(hunk.removed for hunk in self.patch.hunks)


def patched(text: str, name: str) -> list[Change]:
    """Return the changes that a patch makes, without writing them; messages call the patch ``name``.

    Raises:
        ValueError: when a part of the patch does not apply; the message has all these places.
    """
    changes: list[Change] = []
    problems: list[str] = []
    for file in read_patch(text, name):
        try:
            change = _change(file, problems)
        except ValueError as error:
            problems.append(f"{name}:{file.at}: {error}")
            continue
        if any(change.file == other.file for other in changes):
            problems.append(f"{name}:{file.at}: {file.path!r} is in the patch twice")
        changes.append(change)
    if problems:
        raise ValueError("\n".join(problems))
    return changes


def write_all(contents: Mapping[Path, bytes | None]) -> None:
    """Write files and delete those without content; if one fails, restore all.

    Raises:
        ValueError: with the file that failed, and the reason.
    """
    before: dict[Path, bytes | None] = {}
    try:
        for file, content in contents.items():
            before[file] = file.read_bytes() if file.exists() else None
            _write(file, content)
    except OSError as error:
        for changed, content in before.items():
            with suppress(OSError):  # the first error is reported
                _write(changed, content)
        name = file.relative_to(get_context().path(".")).as_posix()
        raise ValueError(f"{name!r}: {str(error.strerror).lower()}; nothing changed") from None


def _change(patch: FilePatch, problems: list[str]) -> Change:
    file = get_context().path(patch.path)
    if patch.old is None:
        if file.exists():
            raise ValueError(f"the patch creates {patch.path!r}, which exists already")
        lines: list[str] = []
    else:
        file = existing_file(patch.path)
        try:
            lines = read_all_lines(file)
        except NotText as error:
            raise ValueError(f"{patch.path!r} cannot be patched: {error}") from None
    made, wrong = apply_hunks(lines, patch)
    problems += wrong
    if patch.new is None and made and not wrong:
        raise ValueError(f"the patch deletes {patch.path!r}, which has lines that the patch lacks")
    return Change(patch, file, None if patch.new is None else "".join(made).encode())


def _write(file: Path, content: bytes | None) -> None:
    if content is None:
        file.unlink(missing_ok=True)
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
