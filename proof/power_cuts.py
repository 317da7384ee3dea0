"""Machines that lose their power while two processes write, with real file systems.

The chats lie on a file system in a file.  The writers are stopped and the file is copied as it is:
what they wrote and the kernel has not given to the disk is not in it, as after a power cut.  The copy
is mounted, so that the file system goes by its own journal, and is the disk from then on; what tells
the boots apart in the chats is written over, since the machine was not really started anew.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import shutil
import signal
import subprocess
import time
from typing import TYPE_CHECKING

from covalt_git.git_objects.ref_files import names_below, read_id
from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.workspaces.stat_cache import doubt
from proof.forks import Forked, fork
from proof.stores import chats_in, check_sound, reachable, scratch
from tests.power_cuts import start_anew
from tests.workspaces import busy_writer
from tests.workspaces.stores import run_git

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from proof.figures import Proof

PROMISE = "What was acknowledged is there after a power cut, whatever the disk had been given of what was not flushed."
COUNT = 300
WRITERS = 2
CUTS_OF_A_DISK = 20
LONGEST_LIFE_S = 0.5
SIZE = 512 << 20
FILE_SYSTEMS = {
    "ext4": ("mkfs.ext4", "-q"),
    "xfs": ("mkfs.xfs", "-q"),
    "btrfs": ("mkfs.btrfs", "-q"),
}


def prove(proof: Proof, count: int, seed: int) -> None:
    """Cut the power so many times, on each of the file systems in turn."""
    proof.check(os.geteuid() == 0, "only root may mount: sudo make proof")
    chance = random.Random(seed)
    kinds = [kind for kind, (program, *_) in FILE_SYSTEMS.items() if shutil.which(program)]
    proof.check("ext4" in kinds, "there is no mkfs.ext4: apt-get install e2fsprogs")
    cuts = dict.fromkeys(kinds, 0)
    acknowledged = replayed = 0
    while sum(cuts.values()) < count:
        kind = kinds[sum(cuts.values()) // CUTS_OF_A_DISK % len(kinds)]
        with scratch() as folder:
            disk = _Disk(folder, kind)
            most = min(CUTS_OF_A_DISK, count - sum(cuts.values()))
            said, put_back = _cut(proof, disk, most, chance)
            acknowledged, replayed = acknowledged + said, replayed + put_back
            cuts[kind] += most
            proof.progress(sum(cuts.values()), count)
    for kind, times in cuts.items():
        proof.note(f"power cuts, {kind}", times)
    proof.check(acknowledged >= count, f"only {acknowledged} manifests were made")
    proof.check(replayed * 2 > count, f"only {replayed} cuts took something along")
    proof.note("acknowledged manifests", acknowledged)
    proof.note("cuts that took along what was not flushed", replayed)
    proof.note("lost", 0)


class _Disk:
    """A disk of its own, as a file, and the place where it is mounted."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder = folder
        self.place = folder / "mounted"
        self._file = folder / "disk"
        self.place.mkdir()
        with self._file.open("wb") as file:
            file.truncate(SIZE)
        _run(*FILE_SYSTEMS[kind], str(self._file))

    @contextlib.contextmanager
    def mounted(self) -> Iterator[Path]:
        _run("mount", "-o", "loop", str(self._file), str(self.place))
        try:
            yield self.place
        finally:
            _run("umount", str(self.place))

    def copy(self) -> Path:
        """Return a copy of the disk as it is at one moment, in which nobody writes to it."""
        copy = self.folder / "copy"
        same = False
        while not same:
            _run("cp", "--sparse=auto", str(self._file), str(copy))
            same = subprocess.run(["cmp", "-s", self._file, copy], check=False).returncode == 0
        return copy

    def restore(self, copy: Path) -> None:
        copy.replace(self._file)


def _cut(proof: Proof, disk: _Disk, count: int, chance: random.Random) -> tuple[int, int]:
    """Cut the power of one disk so many times; return how many manifests were made, and cuts replayed."""
    acknowledged: set[str] = set()
    replayed = 0
    said = disk.folder / "said"
    said.touch()
    with disk.mounted() as place:
        chats_in(place, WorkspaceConfig()).new("c1").store.close()
    for number in range(count):
        with disk.mounted() as place:
            writers = [_start(place, said, chance.random()) for _ in range(WRITERS)]
            time.sleep(chance.random() * LONGEST_LIFE_S)
            while not set(said.read_text().split()) - {"None"}:  # git tells of a store without any
                time.sleep(0.01)
            for one in writers:
                os.kill(one.pid, signal.SIGSTOP)
            lines = said.read_text().split("\n")
            acknowledged |= {line for line in lines[:-1] if line != "None"}
            copy = disk.copy()
            for one in writers:
                one.kill(proof)
        disk.restore(copy)
        with disk.mounted() as place:
            chat = place / "chats/c1"
            start_anew(chat / "store.git")
            doubt(chat / "workspace")  # what is known of a folder is of one boot, too
            replayed += bool(acknowledged - _reached(chat))
            # A process that has held the chat's lock knows that it lived through the cut.
            check = functools.partial(_check, proof, place, acknowledged, f"cut {number + 1}")
            fork(check, disk.folder / "error-after-a-cut").end(proof)
    return len(acknowledged), replayed


def _check(proof: Proof, place: Path, acknowledged: set[str], after: str) -> None:
    """Open the chat as anybody would."""
    with chats_in(place, WorkspaceConfig()).open("c1") as chat:
        lost = acknowledged - reachable(chat)
        proof.check(not lost, f"after {after}, {len(lost)} manifests are lost: {lost}")
        check_sound(proof, chat, f"after {after}")


def _reached(chat: Path) -> set[str]:
    """Return the commits that stock git finds in a store that may be damaged."""
    refs = (
        read_id(str(chat / "store.git"), ref)
        for ref in names_below(str(chat / "store.git"), "refs/heads")
    )
    tips = [tip for tip in refs if tip is not None]
    done = run_git(chat / "store.git", "rev-list", "--ignore-missing", *tips)
    return set(done.stdout.decode().split())


def _start(place: Path, said: Path, seed: float) -> Forked:
    """Fork a writer that adds a line to ``said`` for each manifest once it is made."""

    def write() -> None:
        os.dup2(os.open(said, os.O_WRONLY | os.O_APPEND), 1)
        busy_writer.main(place, hash(seed), 10**9, WorkspaceConfig())

    return fork(write, said.with_name("error-of-a-writer"))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
