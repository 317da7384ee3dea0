"""What a watched workspace is after a switch: believed unread, and never when more was done."""

from __future__ import annotations

import mmap
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.workspaces import materialize, watches
from covalt_git.workspaces.writing import writing
from tests.workspaces import merges
from tests.workspaces.stores import (
    branch_off,
    checkout,
    git_tree,
    layout_of,
    open_chats,
    put,
    save,
    scratch,
    tree_of,
)
from tests.workspaces.test_stat_cache import read_everything
from tests.workspaces.watched import come_to_rest, doubtful, look

if TYPE_CHECKING:
    from collections.abc import Callable

    from covalt_git.workspaces.chats import ChatStore

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="there is no inotify"),
    pytest.mark.usefixtures("watching"),
]

REPOSITORY = Path(__file__).resolve().parents[2]
PATHS = ("a", "b", "d/a", "d/b", "d/e/f", "d/e/g", "h/i")
KINDS = ("file", "program", "link")


@pytest.fixture
def two(chat: ChatStore) -> ChatStore:
    """A watched chat on its branch main; ``idea`` has other content in three of its files."""
    put(chat.workspace, {path: ("file", path.encode() * 9) for path in PATHS})
    save(chat)
    branch_off(chat, "idea")
    put(chat.workspace, dict.fromkeys(("a", "d/b", "d/e/f"), ("file", b"idea" * 9)))
    save(chat)
    checkout(chat, "main")
    come_to_rest(chat)
    assert doubtful(chat) == {}
    return chat


def test_files_that_a_switch_replaced_are_not_looked_at(two: ChatStore) -> None:
    for name in ("idea", "main", "idea"):
        checkout(two, name)

        assert doubtful(two) == {}
        assert look(two) == read_everything(two)
        assert save(two) == two.branch(name).manifest_id


def test_what_was_replaced_is_read_by_a_look_at_everything(two: ChatStore) -> None:
    checkout(two, "idea")
    watches.end()
    (two.workspace / "d/e/f").write_bytes(b"mine" * 9)

    assert look(two) == read_everything(two)
    assert two.read_file(save(two), "d/e/f") == b"mine" * 9


def test_a_file_changed_after_a_switch_is_all_that_is_looked_at(two: ChatStore) -> None:
    checkout(two, "idea")
    (two.workspace / "d/e/f").write_bytes(b"mine" * 9)

    assert doubtful(two) == {"d/e": {"f"}}
    head = save(two)
    assert tree_of(two, head) == git_tree(layout_of(two.workspace))
    assert merges.fsck(two) == ""


def test_names_that_come_or_go_with_a_switch_are_looked_at(two: ChatStore) -> None:
    put(two.workspace, {"d/A": ("file", b"unportable beside d/a")})
    save(two)
    for name in ("idea", "main"):
        checkout(two, name)

        assert doubtful(two) != {}
        assert look(two) == read_everything(two)


def write(path: Path) -> None:
    path.write_bytes(b"mine" * 9)


def replace(path: Path) -> None:
    aside = path.parent.parent / "aside"
    aside.write_bytes(b"mine" * 9)
    aside.rename(path)


def swap(path: Path) -> None:
    path.rename(path.with_name("kept"))
    path.with_name("kept").rename(path)


def chmod(path: Path) -> None:
    path.chmod(0o755)


def link(path: Path) -> None:
    path.with_name("other").hardlink_to(path)


def map_open(path: Path) -> mmap.mmap:
    with path.open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), 0)
    mapped[:4] = b"mine"
    return mapped


def delete(path: Path) -> None:
    path.unlink()


def make_folder(path: Path) -> None:
    path.with_name("new").mkdir()


@pytest.mark.parametrize("path", ["d/e/f", "d/e/g"], ids=["replaced", "another"])
@pytest.mark.parametrize("what", [write, replace, swap, chmod, link, map_open, delete, make_folder])
@pytest.mark.parametrize("when", ["remove_journal", "announce"], ids=["at its end", "before"])
def test_what_somebody_does_during_a_switch_is_seen_after_it(
    two: ChatStore, path: str, what: Callable[[Path], mmap.mmap | None], when: str
) -> None:
    real, mapped = getattr(materialize, when), []

    def then(*arguments: object, **others: object) -> None:
        mapped.append(what(two.workspace / path))
        real(*arguments, **others)

    with patch.object(materialize, when, then):
        checkout(two, "idea")

    assert doubtful(two) != {}
    assert look(two) == read_everything(two)
    head = save(two)
    assert tree_of(two, head) == git_tree(layout_of(two.workspace))
    for one in filter(None, mapped):
        one.close()
        assert tree_of(two, save(two)) == git_tree(layout_of(two.workspace))


def test_what_a_reader_hears_of_during_a_switch_is_seen_after_it(two: ChatStore) -> None:
    real = materialize.announce

    def then(written: Path, path: Path, *, durable: bool) -> None:
        delete(two.workspace / "d/e/g")  # which nobody opens to see it
        assert look(two).files == len(PATHS) - 1
        real(written, path, durable=durable)

    with patch.object(materialize, "announce", then):
        checkout(two, "idea")

    assert doubtful(two) != {}
    assert look(two) == read_everything(two)
    head = save(two)
    assert tree_of(two, head) == git_tree(layout_of(two.workspace))


def test_a_full_queue_at_the_end_of_a_switch_makes_everything_be_looked_at(two: ChatStore) -> None:
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if most > 1 << 17:
        pytest.skip("the queue is very long here")
    real = materialize.remove_journal

    def then(*arguments: object, **others: object) -> None:
        for _ in range(most // 2 + 1):
            os.utime(two.workspace / "a")
            os.utime(two.workspace / "b")
        write(two.workspace / "h/i")
        real(*arguments, **others)  # type: ignore[arg-type]

    with patch.object(materialize, "remove_journal", then):
        checkout(two, "idea")

    assert doubtful(two) is None
    assert look(two) == read_everything(two)


STATES = st.fixed_dictionaries(
    {path: st.tuples(st.sampled_from(KINDS), st.sampled_from([b"1", b"2", b"3"])) for path in PATHS}
)


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
@settings(deadline=None, max_examples=15)
@given(layouts=st.lists(STATES, min_size=2, max_size=4))
def test_what_is_foreseen_is_what_a_look_at_everything_sees(
    object_format: str, layouts: list[dict[str, tuple[str, bytes]]]
) -> None:
    config = WorkspaceConfig.model_validate({"durability": "fast", "object_format": object_format})
    with scratch() as folder, open_chats(folder, config).new("c1") as chat:
        put(chat.workspace, layouts[0])
        for number, layout in enumerate(layouts):
            branch_off(chat, f"b{number}")
            for path in PATHS:
                (chat.workspace / path).unlink(missing_ok=True)
            put(chat.workspace, layout)
            save(chat)
        come_to_rest(chat)
        for number in range(len(layouts)):
            checkout(chat, f"b{number}")
            assert layout_of(chat.workspace) == layouts[number]
            assert doubtful(chat) == {}
            assert look(chat) == read_everything(chat)
            assert save(chat) == chat.branch(f"b{number}").manifest_id


@pytest.mark.parametrize("seed", range(2))
def test_nothing_is_missed_of_what_others_do_while_it_switches(two: ChatStore, seed: int) -> None:
    program = f"""
import random, sys, time
from pathlib import Path
from tests.workspaces.test_stat_cache import change
from tests.workspaces.test_foreseen import PATHS
chance = random.Random({seed})
KINDS = ["write", "write", "rewrite", "rename", "chmod", "touch", "delete", "delete folder", "rename folder"]
for number in range(400):
    kind = chance.choice(KINDS)
    change(Path(sys.argv[1]), kind, *chance.choices(PATHS, k=2), b"%d" % number)
    time.sleep(chance.random() / 200)
"""
    command = [sys.executable, "-c", program, str(two.workspace)]
    with subprocess.Popen(command, cwd=REPOSITORY) as changing:
        while changing.poll() is None:
            checkout(two, random.choice(["main", "idea"]))
    assert changing.returncode == 0
    for name in ("main", "idea", "main"):
        checkout(two, name)
        assert look(two) == read_everything(two)
        with writing(two) as writer:
            writer.save_edits()
        assert tree_of(two, two.branch(name).manifest_id or "") == git_tree(
            layout_of(two.workspace)
        )
    assert merges.fsck(two) == ""
