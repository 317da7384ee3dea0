"""Four processes write to one chat and are killed with SIGKILL, at random, again and again."""

import random
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from covalt_git.models.project_config import WorkspaceConfig
from tests.stress.figures import Proof
from tests.stress.forks import Forked, fork
from tests.stress.stores import check_sound, reachable
from tests.workspaces import busy_writer
from tests.workspaces.stores import open_chats, scratch

PROMISE = (
    "If writers are killed, no acknowledged commit is lost, no chat is locked, and every store "
    "is valid."
)
COUNT = 1000
WRITERS = 4
CHECKED_EVERY = 25
LONGEST_LIFE_S = 0.25
FEWEST_STEPS = 0.25
"""How many manifests a kill leaves time for, at least; fewer, and it is idlers that were killed."""


def prove(proof: Proof, count: int, seed: int) -> None:
    """Kill ``count`` writers; check everything after each 25."""
    chance = random.Random(seed)
    with scratch(in_memory=False) as folder:
        chats = open_chats(folder, WorkspaceConfig())
        chats.new("c1").store.close()
        acknowledged: set[str] = set()
        said = folder / "said"
        said.touch()
        killed = 0
        while killed < count:
            batch = min(CHECKED_EVERY, count - killed)
            _kill(proof, folder, said, batch, chance)
            killed += batch
            acknowledged |= {line for line in said.read_text().split("\n") if len(line) == 40}
            with chats.open("c1") as chat:
                check_sound(proof, chat, f"after {killed} kills")
                lost = acknowledged - reachable(chat)
            proof.check(not lost, f"after {killed} kills, {len(lost)} manifests are lost: {lost}")
            proof.progress(killed, count)
    steps = len(acknowledged)
    proof.check(
        steps >= killed * FEWEST_STEPS, f"only {steps} manifests were made in {killed} kills"
    )
    proof.note("kills of running writers", killed)
    proof.note("acknowledged commits", len(acknowledged))
    proof.note("lost", 0)
    proof.note("chats that stayed locked", 0)


def _kill(proof: Proof, folder: Path, said: Path, count: int, chance: random.Random) -> None:
    """Keep four writers at work until so many have been killed, and then kill the others."""
    alive = [_start(folder, said, chance.random()) for _ in range(WRITERS)]
    try:
        for _ in range(count):
            time.sleep(chance.random() * LONGEST_LIFE_S)
            alive.pop(chance.randrange(len(alive))).kill(proof)
            alive.append(_start(folder, said, chance.random()))
    finally:
        with ExitStack() as left:  # each of them, even where one has ended by itself
            for one in alive:
                left.callback(one.kill, proof)


def _start(folder: Path, said: Path, seed: float) -> Forked:
    """Fork a writer that adds a line to ``said`` for each manifest once it is made."""
    write = partial(busy_writer.main, folder, hash(seed), 10**9, WorkspaceConfig())
    return fork(write, folder / "error-of-a-writer", said=said)
