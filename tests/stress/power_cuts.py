"""Machines that lose their power while somebody writes, with real file systems.

The chats lie on a file system in a file.  The writers are stopped and the file is copied as it is:
what they wrote and the kernel has not given to the disk is not in it, as after a power cut.  The copy
is mounted, so that the file system goes by its own journal, and is the disk from then on; what tells
the boots apart in the chats is written over, since the machine was not really started anew.

Mostly two processes write to one chat whatever they can think of; what is in its folder then only
their manifests say, since what a tool writes is its own affair.  Each third time one uploads files to
another chat, into new folders, and has to find all of them in the folder.  It does so alone: what it
flushes there a file system may take as a reason to have the others' on the disk, too.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import time
from functools import partial
from typing import TYPE_CHECKING

from covalt_git.git_objects.ref_files import names_below, read_id
from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.names import new_id
from covalt_git.workspaces.stat_cache import doubt
from covalt_git.workspaces.uploads import Upload
from covalt_git.workspaces.writing import writing
from tests.power_cuts import start_anew
from tests.stress.forks import Forked, fork
from tests.stress.stores import chats_in, check_sound, reachable, scratch
from tests.workspaces import busy_writer
from tests.workspaces.stores import run_git

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.stress.figures import Proof

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
    proof.check(os.geteuid() == 0, "only root may mount: sudo make stress")
    chance = random.Random(seed)
    kinds = [kind for kind, (program, *_) in FILE_SYSTEMS.items() if shutil.which(program)]
    proof.check("ext4" in kinds, "there is no mkfs.ext4: apt-get install e2fsprogs")
    cuts = dict.fromkeys(kinds, 0)
    acknowledged = uploaded = replayed = 0
    while sum(cuts.values()) < count:
        kind = kinds[sum(cuts.values()) // CUTS_OF_A_DISK % len(kinds)]
        with scratch() as folder:
            disk = _Disk(folder, kind)
            most = min(CUTS_OF_A_DISK, count - sum(cuts.values()))
            said, put, put_back = _cut(proof, disk, most, chance)
            acknowledged, uploaded, replayed = (
                acknowledged + said,
                uploaded + put,
                replayed + put_back,
            )
            cuts[kind] += most
            proof.progress(sum(cuts.values()), count)
    for kind, times in cuts.items():
        proof.note(f"power cuts, {kind}", times)
    proof.check(acknowledged >= count, f"only {acknowledged} manifests were made")
    proof.check(uploaded >= count, f"only {uploaded} files were uploaded")
    proof.check(replayed * 3 > count, f"only {replayed} cuts took something along")
    proof.note("acknowledged manifests", acknowledged)
    proof.note("acknowledged uploads, looked for in the folder", uploaded)
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


def _cut(proof: Proof, disk: _Disk, count: int, chance: random.Random) -> tuple[int, int, int]:
    """Cut the power of one disk so many times; return how many manifests and uploads were made, and cuts replayed."""
    acknowledged: set[str] = set()
    replayed = 0
    said, uploaded = disk.folder / "said", disk.folder / "uploaded"
    said.touch()
    uploaded.touch()
    with disk.mounted() as place:
        for chat_id in ("c1", "c2"):
            chats_in(place, WorkspaceConfig()).new(chat_id).store.close()
    for number in range(count):
        with disk.mounted() as place:
            busy = partial(busy_writer.main, place, steps=10**9, config=WorkspaceConfig())
            if number % 3 == 2:
                writers = [_start(partial(_upload, place), uploaded)]
            else:
                seeds = [hash(chance.random()) for _ in range(WRITERS)]
                writers = [_start(partial(busy, seed), said) for seed in seeds]
            time.sleep(chance.random() * LONGEST_LIFE_S)
            while not _lines(said) - {"None"}:  # git tells of a store without any
                time.sleep(0.01)
            for one in writers:
                os.kill(one.pid, signal.SIGSTOP)
            acknowledged |= _lines(said) - {"None"}
            copy = disk.copy()
            for one in writers:
                one.kill(proof)
        disk.restore(copy)
        with disk.mounted() as place:
            for chat in (place / "chats/c1", place / "chats/c2"):
                start_anew(chat / "store.git")
                doubt(chat / "workspace")  # what is known of a folder is of one boot, too
            replayed += bool(acknowledged - _reached(place / "chats/c1"))
            lost = {path for path in _lines(uploaded) if not _is_there(place, path)}
            proof.check(not lost, f"after cut {number + 1}, these are not in the folder: {lost}")
            # A process that has held the chat's lock knows that it lived through the cut.
            check = partial(_check, proof, place, acknowledged, f"cut {number + 1}")
            fork(check, disk.folder / "error-after-a-cut").end(proof)
    return len(acknowledged), len(_lines(uploaded)), replayed


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


def _lines(file: Path) -> set[str]:
    """Return the whole lines of a file."""
    return set(file.read_text().split("\n")[:-1])


def _is_there(place: Path, path: str) -> bool:
    """Tell whether a file that was uploaded is in the folder, with its own path in it."""
    file = place / "chats/c2/workspace" / path
    return file.is_file() and file.read_text() == path


def _upload(place: Path) -> None:
    """Upload files, each into new folders, and say the path of each."""
    with chats_in(place, WorkspaceConfig()).open("c2") as chat:
        while True:
            folder = f"{new_id()}/deep"
            with writing(chat) as writer:
                writer.upload([Upload("file", f"{folder}/file".encode())], folder=folder)
            busy_writer.say(f"{folder}/file")


def _start(work: Callable[[], None], said: Path) -> Forked:
    """Fork a writer that adds a line to ``said`` for all that it has made."""

    def write() -> None:
        os.dup2(os.open(said, os.O_WRONLY | os.O_APPEND), 1)
        work()

    return fork(write, said.with_name("error-of-a-writer"))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
