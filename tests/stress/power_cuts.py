"""Power losses during writes, with real file systems.

The chats lie on a file system in a file.  The writers are stopped and the file is copied as it is:
what they wrote and the kernel has not given to the disk is not in it, as after a power cut.  The copy
is mounted, so that the file system goes by its own journal, and is the disk from then on.

Three kinds of writers take turns.  Two processes write to one chat at random.  One process repeats
a step that changes refs and packs: a merge, a push, a rename, a switch, a repack, a gc.  One process
uploads files to another chat, into new folders, and has to find all of them in the folder; it is alone,
because its fsyncs could carry the data of others to the disk.

Stock git judges first: :mod:`tests.stress.stock_git` runs before anything of covalt-git opens the
store, and has to find it clean, with every acknowledged commit.  The ids of these were written to a file
outside the disk.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from covalt_git.file_edits import uploads
from covalt_git.file_edits.uploads import NewFile
from covalt_git.git_store import repacking
from covalt_git.git_store.serving import Command, PushRequest
from covalt_git.merging import branch_merge
from covalt_git.merging.merge_conflicts import Choice
from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.names import new_id
from covalt_git.transfers import pushing
from covalt_git.workspaces import branches
from covalt_git.workspaces.chat import ChatStore
from covalt_git.workspaces.writing import writing
from tests.stress import stock_git
from tests.stress.forks import Forked, fork
from tests.stress.stores import check_sound, reachable
from tests.workspaces import busy_writer
from tests.workspaces.stores import collect, git, open_chats, run_git, scratch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.stress.figures import Proof

PROMISE = (
    "After a power cut no acknowledged commit or upload is lost, whichever unsynced writes "
    "reached the disk."
)
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
    acknowledged = uploaded = 0
    unsound: list[str] = []
    while sum(cuts.values()) < count:
        kind = kinds[sum(cuts.values()) // CUTS_OF_A_DISK % len(kinds)]
        with scratch() as folder:
            disk = _Disk(folder, kind)
            most = min(CUTS_OF_A_DISK, count - sum(cuts.values()))
            said, put, wrong = _cut(proof, disk, most, chance)
            acknowledged, uploaded = acknowledged + said, uploaded + put
            unsound += wrong
            cuts[kind] += most
            proof.progress(sum(cuts.values()), count)
    for kind, times in cuts.items():
        proof.note(f"power cuts, {kind}", times)
    proof.check(acknowledged >= count, f"only {acknowledged} manifests were made")
    proof.check(uploaded >= count, f"only {uploaded} files were uploaded")
    proof.note("acknowledged commits", acknowledged)
    proof.note("acknowledged uploads, checked in the folder", uploaded)
    proof.note("lost", 0)
    proof.check(not unsound, _summary(unsound, count))
    proof.note("stores with errors of stock git, before covalt-git ran", 0)


def _summary(unsound: list[str], count: int) -> str:
    return (
        f"stock git found {len(unsound)} of {count} stores damaged, the first: {unsound[0]}"
        if unsound
        else ""
    )


class _Disk:
    """A disk of its own, as a file, and the place where it is mounted."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder, self.kind = folder, kind
        self.place = folder / "mounted"
        self._file = folder / "disk"
        self.place.mkdir()
        with self._file.open("wb") as file:
            file.truncate(SIZE)
        _run(*FILE_SYSTEMS[kind], str(self._file))

    @contextlib.contextmanager
    def mounted(self) -> Iterator[Path]:
        # A sandbox that runs elsewhere may hold the last mount in its namespace for a while.
        options = "loop,nouuid" if self.kind == "xfs" else "loop"
        _run("mount", "-o", options, str(self._file), str(self.place))
        try:
            yield self.place
        finally:
            _run("umount", str(self.place))

    def copy(self) -> Path:
        """Return a consistent copy of the disk."""
        copy = self.folder / "copy"
        same = False
        while not same:
            _run("cp", "--sparse=auto", str(self._file), str(copy))
            same = subprocess.run(["cmp", "-s", self._file, copy], check=False).returncode == 0
        return copy

    def restore(self, copy: Path) -> None:
        copy.replace(self._file)


def _cut(
    proof: Proof, disk: _Disk, count: int, chance: random.Random
) -> tuple[int, int, list[str]]:
    """Cut the power of one disk so many times.

    Returns:
        How many manifests and uploads were acknowledged, and what stock git found wrong after which cut.
    """
    acknowledged: set[str] = set()
    unsound: list[str] = []
    said, uploaded = disk.folder / "said", disk.folder / "uploaded"
    said.touch()
    uploaded.touch()
    with disk.mounted() as place:
        for chat_id in ("c1", "c2"):
            open_chats(place, WorkspaceConfig()).new(chat_id).store.close()
    for number in range(count):
        with disk.mounted() as place:
            busy = partial(busy_writer.main, place, steps=10**9, config=WorkspaceConfig())
            if number % 3 == 2:
                writers = [_start(partial(_upload, place), uploaded)]
            elif number % 3 == 1:
                repeat = partial(_repeat, place, disk.folder, chance.choice(STEPS), chance.random())
                writers = [_start(repeat, said)]
            else:
                seeds = [hash(chance.random()) for _ in range(WRITERS)]
                writers = [_start(partial(busy, seed), said) for seed in seeds]
            time.sleep(chance.random() * LONGEST_LIFE_S)
            while not _lines(said) - {"None"}:  # git reports a store without any
                time.sleep(0.01)
            for one in writers:
                os.kill(one.pid, signal.SIGSTOP)
            acknowledged |= _lines(said) - {"None"}
            copy = disk.copy()
            for one in writers:
                one.kill(proof)
        disk.restore(copy)
        with disk.mounted() as place:
            if wrong := _stock_git(place / "chats/c1/store.git", said):
                unsound.append(f"after cut {number + 1} on {disk.kind}: {wrong}")
            for chat in ("c1", "c2"):
                # Both are of one boot: after a real cut another boot id makes them invalid.
                for name in ("stat.cache", "lock"):
                    (place / "chats" / chat / name).unlink(missing_ok=True)
            lost = {path for path in _lines(uploaded) if not _is_there(place, path)}
            proof.check(not lost, f"after cut {number + 1}, these are not in the folder: {lost}")
            # A process that has held the chat's lock knows that it lived through the cut.
            check = partial(_check, proof, place, acknowledged, f"cut {number + 1}")
            fork(check, disk.folder / "error-after-a-cut").end(proof)
    return len(acknowledged), len(_lines(uploaded)), unsound


def _check(proof: Proof, place: Path, acknowledged: set[str], after: str) -> None:
    """Open the chat as a user does."""
    with open_chats(place, WorkspaceConfig()).open("c1") as chat:
        lost = acknowledged - reachable(chat)
        proof.check(not lost, f"after {after}, {len(lost)} manifests are lost: {lost}")
        check_sound(proof, chat, f"after {after}")


def _stock_git(store: Path, said: Path) -> str:
    """Return the errors that stock git finds in a store that covalt-git has not opened since the cut."""
    acknowledged = said.with_name("acknowledged")
    acknowledged.write_text("\n".join(_lines(said) - {"None"}), encoding="ascii")
    program = [sys.executable, "-I", stock_git.__file__, str(store), str(acknowledged)]
    return subprocess.run(program, capture_output=True, text=True, check=False).stdout.strip()


def _lines(file: Path) -> set[str]:
    """Return the whole lines of a file."""
    return set(file.read_text().split("\n")[:-1])


def _is_there(place: Path, path: str) -> bool:
    """Return whether an uploaded file is in the folder, with its path as content."""
    file = place / "chats/c2/workspace" / path
    return file.is_file() and file.read_text() == path


def _upload(place: Path) -> None:
    """Upload files, each into new folders, and say the path of each."""
    with open_chats(place, WorkspaceConfig()).open("c2") as chat:
        while True:
            folder = f"{new_id()}/deep"
            with writing(chat) as writer:
                uploads.upload(writer, [NewFile("file", f"{folder}/file".encode())], folder=folder)
            busy_writer.say(f"{folder}/file")


def _repeat(place: Path, scratch: Path, step: Step, seed: float) -> None:
    """Add files and take a step, again and again, and say where the chat is after each."""
    chance = random.Random(seed)
    with open_chats(place, WorkspaceConfig()).open("c1") as chat:
        while True:
            with writing(chat) as writer:
                busy_writer.add_files(writer, chance)
            step(chat, chance, scratch)
            busy_writer.say(str(chat.head()))


def _merge(chat: ChatStore, chance: random.Random, _: Path) -> None:
    with writing(chat) as writer:
        busy_writer.go(writer, chance)
        busy_writer.add_files(writer, chance)
        others = [one.name for one in chat.branches() if one.name != chat.active_branch()]
        if others:
            branch_merge.merge(writer, chance.choice(others), {None: Choice("theirs")})


def _switch(chat: ChatStore, chance: random.Random, _: Path) -> None:
    with writing(chat) as writer:
        busy_writer.go(writer, chance)


def _rename(chat: ChatStore, chance: random.Random, _: Path) -> None:
    with writing(chat) as writer:
        name = chance.choice([one.name for one in chat.branches()])
        branches.rename(writer, name, f"r{new_id()}")


def _repack(chat: ChatStore, _chance: random.Random, _: Path) -> None:
    with writing(chat):
        repacking.combine(chat.store, most=0)


def _collect(chat: ChatStore, _chance: random.Random, _: Path) -> None:
    collect(chat)


def _push(chat: ChatStore, _: random.Random, scratch: Path) -> None:
    """Push a commit that stock git makes in a clone outside the disk."""
    old, branch = chat.head(), chat.active_branch()
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        clone = Path(folder) / "clone"
        git(Path(folder), "clone", "-q", str(chat.folder / "store.git"), str(clone), "-b", branch)
        (clone / f"p{new_id()}").write_text("pushed", encoding="utf-8")
        git(clone, "add", "-A")
        git(clone, "commit", "-q", "-m", "pushed")
        new = git(clone, "rev-parse", "HEAD").strip()
        revisions = f"{new}\n^{old}\n".encode()
        pack = run_git(clone, "pack-objects", "--revs", "--stdout", "-q", given=revisions).stdout
    command = Command(f"refs/heads/{branch}", old, new)
    pushing.push(chat, PushRequest((command,)), io.BytesIO(pack), timeout_s=60)


Step = Callable[[ChatStore, random.Random, Path], None]
STEPS: tuple[Step, ...] = (_merge, _switch, _rename, _repack, _collect, _push)


def _start(work: Callable[[], None], said: Path) -> Forked:
    """Fork a writer that adds a line to ``said`` for all that it has made."""
    return fork(work, said.with_name("error-of-a-writer"), said=said)


def _run(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, (command, done.stderr)
