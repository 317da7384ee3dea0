"""Calls that try to fill the disk, or to make others read without end what takes no space there."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from covalt_git.calls.outcomes import CallOutcome
from covalt_git.http_tools.files import LockedWorkspace
from covalt_git.models.project_config import WorkspaceConfig, effective_limits
from covalt_git.models.tool_properties import Limits
from covalt_git.runtime import folder_size
from covalt_git.runtime.disk_space import DiskFullError
from covalt_git.workspaces import scan
from tests.calls.conftest import World, make_world, world
from tests.runtime.conftest import Workshop, pool, workshop

__all__ = ["pool", "workshop", "world"]

MANIFEST = """\
id: demo
name: Demo
version: "1"
tools:
  - {id: fill, entrypoint: tools.bad:fill}
  - {id: look, entrypoint: tools.bad:look, annotations: {read_only: true}}
"""
LOOK = "def look(workspace: Path) -> int:\n    return len(list(workspace.iterdir()))\n"


def fill(world: World, body: str) -> CallOutcome:
    """Call a tool with this body, under the limits that hold by default."""
    source = f"import os, time\nfrom pathlib import Path\ndef fill(workspace: Path) -> None:\n    {body}\n"
    world.write("demo/toolset.yaml", MANIFEST)
    world.write("demo/tools/bad.py", source + LOOK)
    return world.call("fill")


def code(outcome: CallOutcome) -> str:
    return outcome.error.code if outcome.error else outcome.call.status


def test_one_huge_file_is_limited(world: World) -> None:
    """A tool makes a file of 1 TiB in one system call."""
    outcome = fill(world, "open('a', 'wb').truncate(1 << 40)")

    assert code(outcome) == "limit_written"


def test_sparse_files_count_by_their_length(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool makes more sparse files at once than may be in a workspace, each small enough to be stored."""
    world.configure("limits: {workspace_mb: 64}\n")
    monkeypatch.setattr(scan, "_MAX_HOLES", 32 << 20)
    outcome = fill(world, "for n in range(13): open(f'{n}', 'wb').truncate(5 << 20)")

    assert code(outcome) == "limit_workspace"
    assert any("it is sparse" in note.reason for note in outcome.notes.not_stored)
    assert code(fill(world, "os.unlink('1')")) == "success"


def test_a_private_folder_is_counted_while_the_tool_runs(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tool writes a little more than a large limit to its /tmp, while others free as much."""
    monkeypatch.setattr(folder_size, "_FIRST_S", 0.2)
    write = "open(os.environ['TMPDIR'] + f'/{n}', 'wb').truncate(10 << 20)"
    source = f"import os, time\ndef run():\n    for n in range(31): {write}\n    time.sleep(30)\n"

    outcome = workshop.run(source, limits={"workspace_mb": 300})

    assert outcome.error is not None
    assert outcome.error.code == "limit_tmp"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 96 MiB, of which 12 MiB must stay free."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mounted, check=False, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_call_leaves_space_on_the_disk(small_disk: Path) -> None:
    """A tool writes until the disk is full: its chat could not be saved any more.

    The space is checked every 0.1 s, and on a busy machine later: the tool may write 5 MiB more until then.
    """
    world = make_world(small_disk / "project")
    (small_disk / "others").write_bytes(bytes(76 << 20))

    outcome = fill(
        world, "for n in range(999): open(f'{n}', 'wb').write(os.urandom(1 << 20)); time.sleep(0.1)"
    )

    assert code(outcome) == "limit_disk"
    assert 0 < len(outcome.changes) < 20
    free = os.statvfs(small_disk)
    assert free.f_bavail * free.f_frsize > 2 << 20


def test_on_a_full_disk_writing_tools_are_refused_and_reading_tools_run(small_disk: Path) -> None:
    """A call is made on a disk that others have filled."""
    world = make_world(small_disk / "project")
    assert code(fill(world, "pass")) == "success"
    (small_disk / "others").write_bytes(bytes(85 << 20))
    before = world.refs()

    with pytest.raises(DiskFullError):
        world.call("fill")

    assert world.refs() == before
    assert (world.call("look").call.result, world.call("look").error) == (0, None)


def test_limits_hold_by_default() -> None:
    """A toolset and a project set no limits."""
    found = effective_limits(Limits(), Limits())
    assert (found.workspace_mb, found.written_mb, found.files) == (4096, 1024, 200_000)
    larger = effective_limits(Limits(), Limits(workspace_mb=9000, written_mb=5000))
    assert (larger.workspace_mb, larger.file_mb) == (9000, 5000)


def test_a_huge_file_of_the_same_name_is_not_read(tmp_path: Path) -> None:
    """A tool leaves a sparse file of 1 TiB under the name of a download, to exhaust the memory."""
    huge = tmp_path / "cat.png"
    huge.touch()
    os.truncate(huge, 1 << 40)

    name = LockedWorkspace(tmp_path, WorkspaceConfig(), "sha1").save("cat.png", b"cat")

    assert (name, (tmp_path / name).read_bytes()) == ("cat_1.png", b"cat")
