"""A disk that is full or broken, and a process that is killed, at every single call to the system.

``strace`` makes one call of a step fail with ENOSPC or EIO, or kills the process at it; then the next
command has to find the old state or the new one.
"""

import os
import random
import re
import shutil
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from covalt_git.git_store.objects import EXECUTABLE, FILE, LINK
from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.workspaces import branches
from covalt_git.workspaces.chat import ChatStore
from covalt_git.workspaces.writing import writing
from tests.stress.figures import Proof
from tests.stress.one_step import STARTED, STEPS
from tests.stress.stores import check_sound, reachable
from tests.workspaces.stores import Layout, branch_off, layout_of, open_chats, put, save, scratch

PROMISE = (
    "If a system call fails or the process is killed at it, the chat is as before or as after "
    "the operation, and the next command works."
)
COUNT = 10_000

CALLS = (
    *("write", "pwrite64", "rename", "renameat", "renameat2", "fsync", "fdatasync", "mkdir"),
    *("mkdirat", "link", "linkat", "symlink", "symlinkat", "unlink", "unlinkat", "ftruncate"),
)
FAULTS = ("error=ENOSPC", "error=EIO", "signal=KILL")
_LINE = re.compile(r"^\d+ +(\w+)\(")
_HIT = re.compile(r"\(INJECTED\)|\+\+\+ killed by SIGKILL \+\+\+")
MOST_MISSED = 0.1
"""Of the faults of a step: a call may be made once in a run, and not in the next."""


class Case(NamedTuple):
    """One fault at one call of a step."""

    step: str
    call: str
    when: int
    fault: str


def prove(proof: Proof, count: int, seed: int) -> None:
    """Try every fault at every call of every step, or ``count`` of them."""
    proof.check(shutil.which("strace"), "there is no strace: apt-get install strace")
    with scratch() as folder:
        base = folder / "base"
        layouts = _prepared(base)
        for step in STEPS:
            layouts[step] = _without_fault(base, folder / "whole", step)
        calls = {step: _calls_of(base, folder / "traced", step) for step in STEPS}
        idle = [step for step, found in calls.items() if not found]
        proof.check(not idle, f"these make no call that can fail: {idle}")
        cases = [
            Case(step, call, when, fault)
            for step in STEPS
            for call, first, last in calls[step]
            for when in range(first, last + 1)
            for fault in FAULTS
        ]
        if len(cases) > count:
            cases = random.Random(seed).sample(cases, count)
        failed: Counter[str] = Counter()
        hit: Counter[str] = Counter()
        with ThreadPoolExecutor(os.cpu_count()) as runs:
            tried = runs.map(
                lambda one: _tried(base, folder / f"case-{one[0]}", one[1]), enumerate(cases)
            )
            for number, (case, place, acknowledged) in enumerate(tried, 1):
                failed[case.step] += not acknowledged
                hit[case.step] += _is_hit(place)
                _check(proof, case, place, acknowledged, layouts)
                shutil.rmtree(place)
                proof.progress(number, len(cases))
    for step in STEPS:
        tries = sum(case.step == step for case in cases)
        missed = tries - hit[step]
        proof.check(
            missed <= tries * MOST_MISSED, f"{step}: {missed} of {tries} faults hit nothing"
        )
        proof.note(f"{step}: system calls, each with a fault", tries)
        proof.note(f"{step}: faults that occurred", hit[step])
        proof.note(f"{step}: operations that failed", failed[step])
    proof.check(failed.total() * 2 > len(cases), "most steps came to their end, whatever failed")
    proof.note("chats in another state", 0)


def _prepared(folder: Path) -> dict[str, Layout]:
    """Make the chat that every step begins with; return the folder's layout by branch and as edited."""
    layouts: dict[str, Layout] = {}
    chats = open_chats(folder, WorkspaceConfig(durability="fast"))
    with chats.new("c1") as chat:
        work = chat.workspace
        put(work, {f"d{number}/file{number}": ("file", b"%d\n" % number) for number in range(5)})
        put(work, {"both": ("file", b"main\n"), "link": ("link", b"both"), "e": ("folder", b"")})
        save(chat)
        branch_off(chat, "other")
        shutil.rmtree(work / "d1")
        (work / "e").rmdir()
        put(work, {"d1": ("file", b"was a folder\n"), "new/deep/file": ("program", b"#!/bin/sh\n")})
        put(work, {"both": ("file", b"other\n"), "d2/file2": ("file", b"changed\n" * 3000)})
        save(chat)
        branch_off(chat, "gone")
        put(work, {"only here": ("file", b"gone\n")})
        save(chat)
        with writing(chat) as writer:
            writer.checkout("main")
            branches.delete(writer, "gone", force=True)
        put(
            work,
            {"both": ("file", b"edited\n"), "big": ("file", random.Random(1).randbytes(70_000))},
        )
        layouts["edited"] = layout_of(work)
    return layouts


def _calls_of(base: Path, place: Path, step: str) -> list[tuple[str, int, int]]:
    """Return the calls that a step makes, each with the numbers of its first and last."""
    _copied(base, place)
    log = place / "trace"
    _run(place, step, "-o", str(log), "-e", f"trace={','.join(CALLS)}", check=True)
    before: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for line in log.read_text(errors="replace").splitlines():
        if STARTED.decode().strip() in line:
            before = total.copy()
        if found := _LINE.match(line):
            total[found[1]] += 1
    shutil.rmtree(place)
    return [(call, before[call] + 1, total[call]) for call in CALLS if total[call] > before[call]]


def _without_fault(base: Path, place: Path, step: str) -> Layout:
    """Return what the folder is like after a step that nothing disturbs."""
    _copied(base, place)
    _run(place, step, "-o", os.devnull, check=True)
    found = layout_of(place / "chats/c1/workspace")
    shutil.rmtree(place)
    return found


def _tried(base: Path, place: Path, case: Case) -> tuple[Case, Path, str]:
    """Do a step with its fault; return where, and what it said that it made, if it came so far."""
    _copied(base, place)
    inject = f"inject={case.call}:{case.fault}:when={case.when}"
    log = str(place / "trace")
    done = _run(place, case.step, "-o", log, "-e", f"trace={case.call}", "-e", inject)
    return case, place, done.stdout.decode().strip()


def _is_hit(place: Path) -> bool:
    """Return whether strace has injected its fault into a call."""
    return _HIT.search((place / "trace").read_text(errors="replace")) is not None


def _run(
    place: Path, step: str, *options: str, check: bool = False
) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-B", "-m", "tests.stress.one_step", str(place), step]
    return subprocess.run(
        ["strace", "-f", "-qq", *options, *command],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        check=check,
    )


def _copied(base: Path, place: Path) -> None:
    shutil.copytree(base, place, symlinks=True)


def _check(
    proof: Proof, case: Case, place: Path, acknowledged: str, layouts: dict[str, Layout]
) -> None:
    """Check that the next command finds the old state or the new one."""
    after = " ".join(map(str, case))
    chats = open_chats(place, WorkspaceConfig(durability="fast"))
    with chats.open("c1") as chat:
        check_sound(proof, chat, after)
        found = layout_of(chat.workspace)
        if acknowledged:
            proof.check(acknowledged in reachable(chat), f"{after}: what was made is lost")
        if case.step == "call":
            calls = [one.record.call for one in chat.log(chat.head()) if one.record.call]
            kept = {path: it for path, it in found.items() if path not in {"made-by-call", "both"}}
            edited = {path: it for path, it in layouts["edited"].items() if path != "both"}
            proof.check(len(calls) <= 1 and not chat.calls(), f"{after}: {len(calls)} calls")
            proof.check(kept == edited, f"{after}: the files are others")
            whole = found == layouts["edited"] or bool(calls)
            proof.check(whole, f"{after}: files changed, and no call tells")
            return
        wanted = [layouts[case.step]] if acknowledged else [layouts["edited"], layouts[case.step]]
        proof.check(
            found in wanted, f"{after}: the folder is neither as it was nor as it should be"
        )
        saved = any(_tree(chat, oid) == layouts["edited"] for oid in reachable(chat))
        proof.check(found == layouts["edited"] or saved, f"{after}: edits are lost")


def _tree(chat: ChatStore, oid: str) -> Layout:
    """Return the files of a manifest, and the edited folder's empty folders, which no tree has."""
    files = chat.files(oid)
    kinds = {FILE: "file", EXECUTABLE: "program", LINK: "link"}
    found = {path: (kinds[it.mode], chat.store.read_blob(it.oid)) for path, it in files.items()}
    return found | dict.fromkeys(chat.state(oid).empty_folders, ("folder", b""))
