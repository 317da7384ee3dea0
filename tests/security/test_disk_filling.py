"""Calls that try to fill the disk, or to make others read without end what takes no space there."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from covalt_git.models.project_config import limits_in_force
from covalt_git.models.toolset_manifest import Limits
from covalt_git.runtime import folder_size
from covalt_git.runtime.disk_space import DiskFullError
from covalt_git.workspaces import scan
from covalt_git.workspaces.folders import read_entry
from tests.calls.conftest import World, make_world, world
from tests.runtime.conftest import Workshop, pool, workshop
from tests.settling import settle
from tests.workspaces.conftest import chat, chats

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from covalt_git.calls.outcomes import CallOutcome
    from covalt_git.workspaces.chat import ChatStore

__all__ = ["chat", "chats", "pool", "workshop", "world"]

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


def test_sparse_files_count_by_their_length(world: World) -> None:
    """A tool makes 5 GiB of sparse files at once, each small enough to be stored."""
    outcome = fill(world, "for n in range(50): open(f'{n}', 'wb').truncate(100 << 20)")

    assert code(outcome) == "limit_workspace"
    assert any("it is sparse" in note.reason for note in outcome.notes.not_stored)
    assert code(fill(world, "os.unlink('1')")) == "success"


def test_sparse_files_that_are_too_large_to_store_count_as_well(world: World) -> None:
    """A tool makes 5 GiB of sparse files of 1 GiB, of which a scan reads none."""
    outcome = fill(world, "for n in range(5): open(f'{n}', 'wb').truncate(1 << 30)")

    assert code(outcome) == "limit_workspace"
    assert code(fill(world, "open('small', 'w').write('x')")) == "limit_workspace"
    assert code(fill(world, "os.unlink('1'); os.unlink('2')")) == "success"


def test_hard_links_count_and_are_read_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool gives a file of 20 MiB 300 names, so that a scan reads 6 GB."""
    read: list[str] = []

    def counted(parent: int, name: str, status: os.stat_result | None, *, most: int) -> object:
        read.append(name)
        return read_entry(parent, name, status, most=most)

    monkeypatch.setattr(scan, "read_entry", counted)

    outcome = fill(world, "open('a', 'wb').write(bytes(20 << 20))\n    for n in range(300): os.link('a', f'{n}')")  # fmt: skip

    assert code(outcome) == "limit_workspace"
    assert len(read) == 1
    assert len(outcome.changes) == 301


def test_many_sparse_files_are_not_read(chat: ChatStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program leaves sparse files without end, which take no space and long to read."""
    monkeypatch.setattr(scan, "_MAX_HOLES", 10 << 20)
    for number in range(30):
        path = chat.workspace / f"{number:02}"
        path.touch()
        os.truncate(path, 1 << 20)
    (chat.workspace / "real").write_bytes(os.urandom(1 << 20))

    seen = chat.scan()

    assert (seen.files, len(seen.notes.not_stored)) == (11, 20)
    assert seen.usage(chat.workspace) == (31, 31 << 20)


def test_files_are_counted_by_the_scan_after_the_call(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tool makes a few files more than a large limit, too quickly to be counted meanwhile."""
    monkeypatch.setattr(folder_size, "_SMALL", (100, 256 << 20))
    world.configure("limits: {files: 1000}")

    outcome = fill(world, "for n in range(1001): os.close(os.open(f'{n}', os.O_CREAT))")

    assert code(outcome) == "limit_files"


def test_a_private_folder_is_counted_while_the_tool_runs(workshop: Workshop) -> None:
    """A tool writes a little more than a large limit to its /tmp, while others free as much."""
    write = "open(os.environ['TMPDIR'] + f'/{n}', 'wb').truncate(10 << 20)"
    source = f"import os, time\ndef run():\n    for n in range(31): {write}\n    time.sleep(30)\n"

    outcome = workshop.run(source, limits={"workspace_mb": 300})

    assert outcome.error is not None
    assert outcome.error.code == "limit_tmp"


def test_a_workspace_that_holds_more_than_a_large_limit_can_be_changed(workshop: Workshop) -> None:
    """The limits must not end calls of a user whose workspace was larger before."""
    for number in range(40):
        path = workshop.workspace / f"{number}"
        path.touch()
        os.truncate(path, 10 << 20)
    settle(workshop.workspace)
    source = "import os, time\ndef run():\n    time.sleep(2.5)\n    open('1', 'r+b').write(bytes(1 << 20))\n"

    outcome = workshop.run(source, limits={"workspace_mb": 300})

    assert outcome.error is None


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 96 MiB, of which 12 MiB are to be left."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mounted, check=False, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_call_leaves_space_on_the_disk(small_disk: Path) -> None:
    """A tool writes until the disk is full: its chat could not be saved any more."""
    world = make_world(small_disk / "project")

    outcome = fill(
        world,
        "for n in range(999): open(f'{n}', 'wb').write(os.urandom(1 << 20)); time.sleep(0.02)",
    )

    assert code(outcome) == "limit_disk"
    assert 0 < len(outcome.changes) < 96
    free = os.statvfs(small_disk)
    assert free.f_bavail * free.f_frsize > 2 << 20


def test_a_tool_that_writes_is_refused_on_a_full_disk_and_one_that_reads_runs(
    small_disk: Path,
) -> None:
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
    found = limits_in_force(Limits(), Limits())
    assert (found.workspace_mb, found.written_mb, found.files) == (4096, 1024, 200_000)
    larger = limits_in_force(Limits(), Limits(workspace_mb=9000, written_mb=5000))
    assert (larger.workspace_mb, larger.file_mb) == (9000, 5000)
