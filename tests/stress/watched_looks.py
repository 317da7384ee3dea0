"""Random changes of watched folders: the look that believes the watch beside one at everything.

What no watch can tell is not among the changes: a hard link made where nothing is watched.  Looks at
everything have a helper, however little there is to look at, which may or may not be there in time.
Some looks come after a switch of branches, half of those with another thread changing files meanwhile
and looking at them.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from typing import TYPE_CHECKING
from unittest.mock import patch

from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.workspaces import watches
from covalt_git.workspaces.chats import ChatStore
from covalt_git.workspaces.writing import writing
from tests.stress.stores import chats_in, scratch
from tests.workspaces.stores import branch_off, put
from tests.workspaces.test_stat_cache import PATHS, change, read_everything
from tests.workspaces.watched import come_to_rest, doubtful

if TYPE_CHECKING:
    from tests.stress.figures import Proof

PROMISE = "The look that believes the kernel's queue sees what a look at everything sees."
COUNT = 20_000
IN_A_CHAT = 100
_KINDS = (
    *("write", "write", "rewrite", "rename", "rename", "rename folder", "replace folder", "chmod"),
    *("delete", "delete folder", "link", "hard link", "hard link", "folder", "touch"),
)
_CONTENTS = (b"", b"one", b"two", b"three" * 9)
_IGNORED = "node_modules/"


def prove(proof: Proof, count: int, seed: int) -> None:
    """Look ``count`` times, each after up to six changes, a chat for a hundred looks."""
    looks = believed = changes = news = switches = foreseen = 0
    watches.begin(trusted_s=3600)
    helped = contextlib.ExitStack()
    few = ("_FEW", "_FIRST_LOOKS", "_FEW_READ", "_FEW_READ_OF_TWO")
    for name in few:
        helped.enter_context(patch(f"covalt_git.workspaces.preload.{name}", 0))
    try:
        while looks < count:
            chance = random.Random(f"{seed} {looks}")
            config = WorkspaceConfig(durability="fast", ignore=(_IGNORED,))
            with scratch() as folder, chats_in(folder, config).new("c1") as chat:
                put(chat.workspace, {path: ("file", path.encode()) for path in PATHS[:6]})
                come_to_rest(chat)
                for number in range(looks, min(looks + IN_A_CHAT, count)):
                    done = [_changed(chat, chance) for _ in range(chance.randrange(7))]
                    changes += len(done)
                    if chance.random() < 0.5:
                        switches += 1
                        foreseen += _switched(chat, chance, f"branch-{number}")
                        done.append(("switch", "", ""))
                    is_believed = doubtful(chat) is not None
                    is_new = _look(proof, chat, number, done, commit=chance.random() < 0.7)
                    believed += is_believed
                    news += is_believed and is_new
                    if chance.random() < 0.5:
                        come_to_rest(chat)
                    proof.progress(number + 1, count)
            looks += IN_A_CHAT
    finally:
        helped.close()
        watches.end()
    proof.check(believed > count // 4, f"only {believed} looks of {count} believed the watch")
    proof.check(news > count // 8, f"only {news} looks of {count} that believed it saw a change")
    proof.check(foreseen > switches // 8, f"only {foreseen} of {switches} switches were believed")
    proof.note("looks", count)
    proof.note("that believed the watch", believed)
    proof.note("that believed it and saw a change", news)
    proof.note("changes tried before them", changes)
    proof.note("switches of branches before them", switches)
    proof.note("of which what they led to was believed", foreseen)
    proof.note("looks that saw something else", 0)


def _changed(chat: ChatStore, chance: random.Random) -> tuple[str, str, str]:
    kind, (first, second) = chance.choice(_KINDS), chance.choices(PATHS, k=2)
    if kind == "hard link" and _IGNORED in first + second:
        kind = "write"
    change(chat.workspace, kind, first, second, chance.choice(_CONTENTS))
    return kind, first, second


def _switched(chat: ChatStore, chance: random.Random, name: str) -> bool:
    """Go to a branch, change files of it and go back; tell whether the next look believes that."""
    before = chat.active_branch()
    branch_off(chat, name)
    for path in (chat.workspace / one for one in PATHS):
        if path.is_file() and not path.is_symlink() and chance.random() < 0.5:
            path.write_bytes(b"%d" % chance.randrange(1000))
    come_to_rest(chat)
    changing = threading.Thread(target=_changes, args=(chat, chance.random()))
    if chance.random() < 0.5:
        changing.start()
    with writing(chat) as writer:
        writer.checkout(before)
    if changing.ident is not None:
        changing.join()
    return doubtful(chat) == {}


def _changes(chat: ChatStore, seed: float) -> None:
    """Change files now and then for some ms, and look at them like somebody who only reads."""
    chance = random.Random(seed)
    with ChatStore(chat.id, chat.folder, chat.config) as other:
        for _ in range(chance.randrange(6)):
            time.sleep(chance.random() / 300)
            if chance.random() < 0.6:
                _changed(other, chance)
            else:
                with other.looking():
                    pass


def _look(
    proof: Proof, chat: ChatStore, number: int, done: list[tuple[str, str, str]], *, commit: bool
) -> bool:
    """Check a look, and tell whether it saw other files than the branch has."""
    with writing(chat) as writer:
        seen = writer.look()
        head = chat.head()
        is_new = head is None or seen.tree != chat.store.read_commit(head).tree
        proof.check(seen == read_everything(chat), f"look {number} differs after {done}")
        if commit:
            writer.save_edits()
    return is_new
