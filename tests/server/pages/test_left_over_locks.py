"""The page of a toolset removes a lock that no toolset declares, and says what is lost."""

from pathlib import Path

import pytest

from tests.server.visitor import Visitor

MANIFEST = 'id: gear\nname: Gear\nversion: "1"\n'


@pytest.fixture
def lock(root: Path) -> Path:
    """The lock of a server that the toolset gear had, with an accepted tool."""
    for name in ("gear", "locks", "state"):
        (root / "toolsets" / name).mkdir(exist_ok=True)
    (root / "toolsets/gear/toolset.yaml").write_text(MANIFEST)
    (root / "toolsets/state/gear.yaml").write_text(
        f"accepted: {{'notes:read': sha256:{64 * '1'}}}\n"
    )
    file = root / "toolsets/locks/notes.yaml"
    file.write_text("version: 1\nkind: mcp\nnamespace: notes\ntoolset_id: gear\n")
    return file


def test_the_page_of_its_toolset_says_what_is_lost_and_removes_the_lock(
    lock: Path, visitor: Visitor
) -> None:
    page = visitor.open("/toolsets/gear")
    assert "you also lose the acceptance of read ." in page.text
    page = visitor.send(page.form("/locks/remove"), "Remove this lock of notes")
    assert "Removed the lock of notes. 1 definition is no longer accepted." in page.text
    assert "CG402" not in page.text
    assert not lock.exists()


def test_the_page_says_why_a_lock_was_not_removed(root: Path, lock: Path, visitor: Visitor) -> None:
    form = visitor.open("/toolsets/gear").form("/locks/remove")
    (root / "toolsets/gear/toolset.yaml").write_text(
        MANIFEST + "mcp_servers: [{id: notes, command: python3}]\n"
    )
    page = visitor.send(form)
    assert page.status == 409
    assert "so its lock is in use" in page.text
    assert lock.exists()


def test_a_lock_of_a_toolset_whose_manifest_cannot_be_read_is_not_reported(
    root: Path, lock: Path, visitor: Visitor
) -> None:
    assert lock.exists()
    (root / "toolsets/gear/toolset.yaml").write_text("id: [gear\n")
    page = visitor.open("/toolsets/gear")
    assert ("CG402" in page.text, "Remove this lock" in page.text) == (False, False)
