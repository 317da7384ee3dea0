"""Removal of a lock that no toolset declares: what is lost, and when it is refused."""

from pathlib import Path

import pytest

from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.sources.left_over import remove_lock
from covalt_git.toolsets.toolset import FaultyToolsetError, read_toolset
from covalt_git.toolsets.update_lock import checked_after_wait

LOCK = "version: 1\nkind: mcp\nnamespace: notes\ntoolset_id: gear\n"
MANIFEST = 'id: gear\nname: Gear\nversion: "1"\n'
DECLARING = MANIFEST + "mcp_servers:\n  - {id: notes, command: python3}\n"
STATE = """\
accepted:
  notes:read: sha256:1111111111111111111111111111111111111111111111111111111111111111
  other:read: sha256:2222222222222222222222222222222222222222222222222222222222222222
named_first: ["notes:read"]
"""


@pytest.fixture
def lock(root: Path) -> Path:
    """The lock of a server that the toolset gear had."""
    for name in ("gear", "locks", "state"):
        (root / "toolsets" / name).mkdir(exist_ok=True)
    (root / "toolsets/gear/toolset.yaml").write_text(MANIFEST)
    (root / "toolsets/state/gear.yaml").write_text(STATE)
    file = root / "toolsets/locks/notes.yaml"
    file.write_text(LOCK)
    return file


def test_a_lock_is_removed_with_the_acceptances_of_its_definitions_only(
    root: Path, lock: Path
) -> None:
    assert remove_lock(root, "notes").accepted == ("read",)
    assert not lock.exists()
    state = read_toolset(root, "gear").state
    assert [*state.accepted] == ["other:read"]
    assert state.named_first == ()


def test_a_lock_of_a_toolset_that_does_not_exist_is_removed(root: Path, lock: Path) -> None:
    lock.write_text(LOCK.replace("gear", "gone"))
    assert remove_lock(root, "notes").lock.toolset_id == "gone"
    assert not lock.exists()


@pytest.mark.parametrize("toolset_id", ["gear", "other-gear"])
def test_a_lock_of_a_namespace_that_a_toolset_declares_is_not_removed(
    root: Path, lock: Path, toolset_id: str
) -> None:
    folder = root / "toolsets" / toolset_id
    folder.mkdir(exist_ok=True)
    (folder / "toolset.yaml").write_text(DECLARING.replace("id: gear", f"id: {toolset_id}"))
    with pytest.raises(CovaltError, match=f"'{toolset_id}' declares 'notes'") as refusal:
        remove_lock(root, "notes")
    assert (refusal.value.code, refusal.value.http_status) == ("lock_in_use", 409)
    assert lock.exists()


def test_a_server_that_is_added_during_the_wait_for_the_lock_keeps_it(
    root: Path, lock: Path
) -> None:
    def add_server() -> None:
        (root / "toolsets/gear/toolset.yaml").write_text(DECLARING)

    with (
        checked_after_wait(add_server),
        pytest.raises(CovaltError, match="so its lock is in use"),
    ):
        remove_lock(root, "notes")
    assert lock.exists()


def test_a_lock_of_a_toolset_whose_manifest_cannot_be_read_is_not_removed(
    root: Path, lock: Path
) -> None:
    (root / "toolsets/gear/toolset.yaml").write_text("id: [gear\n")
    with pytest.raises(FaultyToolsetError):
        remove_lock(root, "notes")
    assert lock.exists()


def test_a_broken_state_file_keeps_the_lock(root: Path, lock: Path) -> None:
    (root / "toolsets/state/gear.yaml").write_text("accepted: [\n")
    with pytest.raises(CovaltError, match="has errors and was not changed"):
        remove_lock(root, "notes")
    assert lock.exists()


@pytest.mark.parametrize("namespace", ["nope", "../state/gear", ""])
def test_a_lock_that_does_not_exist_is_unknown(root: Path, lock: Path, namespace: str) -> None:
    with pytest.raises(UnknownNameError):
        remove_lock(root, namespace)
    assert lock.exists()
