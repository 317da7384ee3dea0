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
    """What happens to one file: ``content`` is its new content, None where it goes.

    Attributes:
        patch: what asked for it.
        file: where it is.
        content: what it holds afterwards.
    """

    patch: FilePatch
    file: Path
    content: bytes | None

    @property
    def what(self) -> str:
        """Say in a word what happens."""
        if self.content is None:
            return "deleted"
        return "created" if self.patch.old is None else "changed"

    @property
    def added(self) -> int:
        """How many lines it adds."""
        return sum(hunk.added for hunk in self.patch.hunks)

    @property
    def removed(self) -> int:
        """How many lines it takes away."""
        return sum(hunk.removed for hunk in self.patch.hunks)


def patched(text: str, name: str) -> list[Change]:
    """Return what a patch, called ``name`` in messages, makes of the files; nothing is written.

    Raises:
        ValueError: when anything of it does not apply, with all the places.
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


def write_all(
    contents: Mapping[Path, bytes | None], *, executable: frozenset[Path] = frozenset()
) -> None:
    """Write files and delete those without content; if one fails, restore all.

    Raises:
        ValueError: naming the file and why.
    """
    before: dict[Path, bytes | None] = {}
    try:
        for file, content in contents.items():
            before[file] = file.read_bytes() if file.exists() else None
            _write(file, content)
            if file in executable:
                file.chmod(file.stat().st_mode | 0o111)
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
            raise ValueError(f"{patch.path!r} is there already, and the patch creates it")
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
        raise ValueError(f"{patch.path!r} would be deleted, and has lines that the patch has not")
    return Change(patch, file, None if patch.new is None else "".join(made).encode())


def _write(file: Path, content: bytes | None) -> None:
    if content is None:
        file.unlink(missing_ok=True)
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
