"""16 nodes write to one chat on a git server, with wrong clocks, and the holder of the lease is paused again and again."""

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from covalt_git.workspaces.lease import REF, Lease
from tests import nginx_git_server
from tests.stress.figures import Proof
from tests.workspaces.nodes import node, on_files, prepare
from tests.workspaces.stores import git, run_git, scratch

PROMISE = "A node that was paused for longer than its lease writes nothing, and no acknowledged commit is lost."
COUNT = 20
"""Number of pauses."""

NODES, LEASE_S, PAUSE_S, SKEW_S = 16, 5, 12, 1.0
_HOOK = """\
#!/bin/sh
printf '%s\\n--\\n' "$(cat)" >> "$GIT_DIR/pushes"
"""
_REPOSITORY = Path(__file__).resolve().parents[2]


def prove(proof: Proof, count: int, seed: int) -> None:
    """Pause the holder ``count`` times, and then read what the server has accepted."""
    chance = random.Random(seed)
    with scratch() as folder, ExitStack() as stack:
        folder.chmod(0o755)  # the workers of nginx run as another user
        server = folder / "server"
        url, create = on_files(server)
        prepared = node(folder, "first", url, create)
        prepare(prepared)
        prepared.new("c1").close()
        store = server / "c1.git"
        hook = store / "hooks" / "post-receive"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(_HOOK)
        hook.chmod(0o755)
        first = git(store, "rev-parse", REF).strip()
        if nginx_git_server.is_installed():
            place = stack.enter_context(nginx_git_server.git_server(server, folder / "nginx"))
            url = f"{place}/{{chat_id}}.git"
            proof.note("server", "git http-backend behind nginx")
        else:
            proof.note("server", "files")
        processes = {}
        for number in range(NODES):
            name = f"n{number}"
            node(folder, name, url)
            skew = str(SKEW_S * (number % 3 - 1))
            processes[name] = _start(folder, name, url, str(LEASE_S), skew)
            stack.callback(processes[name].wait)
            stack.callback(processes[name].kill)
        paused = _pause(processes, store, count, chance, proof)
        (folder / "end").touch()
        for process in processes.values():
            process.wait(120)
        _judge(proof, folder, store, first)
        proof.note("nodes", NODES)
        proof.note("pauses of the holder", paused)


def _start(*arguments: object) -> subprocess.Popen[bytes]:
    words = [str(argument) for argument in arguments]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.stress.lease_contender", *words], cwd=_REPOSITORY
    )


def _pause(
    processes: dict[str, subprocess.Popen[bytes]],
    store: Path,
    count: int,
    chance: random.Random,
    proof: Proof,
) -> int:
    """Stop the process that has the lease, ``count`` times, each for longer than the lease; return how often."""
    asleep: list[tuple[float, str]] = []
    paused = 0
    while paused < count or asleep:
        time.sleep(chance.uniform(1, 4))
        while asleep and asleep[0][0] <= time.monotonic():
            processes[asleep.pop(0)[1]].send_signal(signal.SIGCONT)
        holder = _lease(store).node
        is_awake = holder in processes and holder not in {name for _, name in asleep}
        if paused < count and is_awake and len(asleep) < NODES // 2:
            processes[holder].send_signal(signal.SIGSTOP)
            asleep.append((time.monotonic() + PAUSE_S, holder))
            paused += 1
            proof.progress(paused, count)
    return paused


def _lease(store: Path, oid: str = REF) -> Lease:
    return Lease.model_validate_json(git(store, "cat-file", "blob", oid).partition("\n\n")[2])


def _judge(proof: Proof, folder: Path, store: Path, first: str) -> None:
    pushes = {}
    for text in (store / "pushes").read_text().split("--\n"):
        moves = {ref: (old, new) for old, new, ref in (line.split() for line in text.splitlines())}
        if REF in moves:
            old, _ = moves[REF]
            proof.check(old not in pushes, "two pushes moved the lease from one value")
            pushes[old] = moves
    # Each accepted push continues the one before it: from the lease of the creation to that of the end.
    at, stale, takeovers, commits = first, 0, 0, 0
    while at in pushes:
        moves = pushes.pop(at)
        before, after = _lease(store, at), _lease(store, moves[REF][1])
        proof.check(after.counter == before.counter + 1, "the counter did not grow by one")
        takeovers += before.node not in {"", after.node} and after.node != ""
        for ref, (old, new) in moves.items():
            if ref.startswith("refs/heads/"):
                span = new if not old.strip("0") else f"{old}..{new}"
                writers = git(store, "log", "--format=%an", span).split()
                commits += len(writers)
                # A free lease is taken by the push of the next write.
                stale += sum(before.node not in {"", writer} for writer in writers)
        at = moves[REF][1]
    proof.check(not pushes, f"{len(pushes)} pushes do not continue the one before them")
    proof.check(at == git(store, "rev-parse", REF).strip(), "the lease was moved by no push")
    proof.check(stale == 0, f"{stale} commits were written by a node without the lease")
    acknowledged = {
        line for file in folder.glob("*/acknowledged") for line in file.read_text().split()
    }
    main = set(git(store, "rev-list", "refs/heads/main").split())
    missing = acknowledged - main
    proof.check(not missing, f"{len(missing)} acknowledged commits are not on the branch")
    problems = run_git(store, "fsck", "--strict", "--no-dangling")
    proof.check(problems.returncode == 0, f"git fsck: {problems.stderr.decode()}")
    lost = git(store, "for-each-ref", "--format=%(objectname)", "refs/covalt/lost/").split()
    errors = Counter(
        line.partition(" ")[0]
        for file in folder.glob("*/errors")
        for line in file.read_text().splitlines()
    )
    unexpected = errors.keys() - {"lease_lost", "chat_busy"}
    proof.check(not unexpected, f"errors: {sorted(unexpected)}")
    proof.note("acknowledged commits", len(acknowledged))
    proof.note("accepted commits", commits)
    proof.note("takeovers", takeovers)
    proof.note("lost branches on the server", len(lost))
    proof.note("refused operations (lease_lost)", errors["lease_lost"])
    proof.note("writes by a stale holder", stale)
    proof.note("lost acknowledged commits", 0)
