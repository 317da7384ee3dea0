"""``validate --fix`` and ``--diff``: the hand-written files with what is safe to mend mended."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from covalt_git.cli import output
from covalt_git.errors import CovaltError
from covalt_git.manifests.fixes import Fixed, fix_text, fixable_files
from covalt_git.system import atomic_write
from covalt_git.text import line_diff

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from covalt_git.errors import Problem


def fix_files(root: Path, found: Sequence[Problem], *, write: bool) -> int:
    """Mend the files of these problems, or show how; return how many were or would be mended.

    What was mended is told on the error stream, so that every format can stand on the other one.

    Raises:
        CovaltError: when a file changed meanwhile; what somebody wrote is not lost.
    """
    count = 0
    for path, before, fixed in _fixes(root, found):
        count += len(fixed.mended)
        if not write:
            names = (f"a/{path}", f"b/{path}")
            output.say(line_diff.unified(before, fixed.text, names), nl=False)
            continue
        if (root / path).read_bytes() != before.encode():
            raise CovaltError(
                f"{path!r} changed while it was mended, and was left as it is",
                hint="covalt-git validate --fix",
            )
        atomic_write.replace(root / path, fixed.text)
        for one in fixed.mended:
            here = os.path.relpath(root / path)
            told = f"mended {here}:{one.line}:{one.col}: {one.code} {one.message}"
            output.say(told, err=True, fg="green")
    if count and not write:
        output.say(f"{output.plural(count, 'problem')} would be mended", err=True)
    return count


def fixable(root: Path, found: Sequence[Problem]) -> int:
    """Return how many of these problems ``--fix`` would mend."""
    places = {(one.path, one.line, one.col, one.code) for one in found}
    return sum(
        (one.path, one.line, one.col, one.code) in places
        for _, _, fixed in _fixes(root, found)
        for one in fixed.mended
    )


def _fixes(root: Path, found: Sequence[Problem]) -> Iterator[tuple[str, str, Fixed]]:
    for path in fixable_files(found):
        file = root / path
        if file.is_symlink():
            continue  # the file that it leads to is not this project's
        before = file.read_bytes().decode("utf-8")
        fixed = fix_text(before, path)
        if fixed.mended:
            yield path, before, fixed
