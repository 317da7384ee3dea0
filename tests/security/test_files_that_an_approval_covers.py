"""Attacks that change what an approved call meets, after the reviewer has looked."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from covalt_git.calls.approvals import ApprovalRenewedError
from tests.calls.conftest import World
from tests.examples import covering


def rewritten(folder: Path) -> None:
    """Write other bytes of the same length, and set the old times again."""
    file = folder / "index.js"
    before = file.stat()
    file.write_text("evil()")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize(
    ("place", "change"),
    covering(
        ["node_modules/left/pad", ".git/hooks"],
        [
            rewritten,
            lambda folder: (folder / "more.js").write_text("evil()"),
            lambda folder: (folder / "index.js").unlink(),
            lambda folder: (folder / "index.js").rename(folder / "other.js"),
        ],
    ),
)
def test_files_that_no_commit_holds_are_covered(
    world: World, change: Callable[[Path], object], place: str
) -> None:
    """Ignored files and refused names are in no commit, so that no difference would show a swap."""
    folder = world.workspace / place
    folder.mkdir(parents=True)
    (folder / "index.js").write_text("good()")
    asked = world.ask()
    change(folder)

    with pytest.raises(ApprovalRenewedError) as caught:
        world.approve(asked)

    top = place.partition("/")[0]
    assert f"({top})" in caught.value.message
    assert world.runs() == 0
    assert world.approve(caught.value.execution_id).call.status == "success"
