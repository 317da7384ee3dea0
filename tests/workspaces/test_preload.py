"""The helper that looks at the last folders of a large workspace: nobody can tell that there is one."""

from __future__ import annotations

import contextlib
import gc
import marshal
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.git_store import BrokenStoreError, blob_id
from covalt_git.git_store.helper_process import HelperGoneError, HelperProcess
from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.workspaces import folders, preload, snapshot, watches
from tests.examples import examples
from tests.workspaces.stores import (
    fsck,
    git_tree,
    layout_of,
    open_chats,
    put,
    save,
    scratch,
    tree_of,
)
from tests.workspaces.test_stat_cache import CHANGES, PATHS, change, look, read_everything, settle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from covalt_git.workspaces.chats import ChatStore
    from covalt_git.workspaces.preload import Preload
    from covalt_git.workspaces.snapshot import Snapshot

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDERS, FILES = 20, 5
HELD = {
    f"d{folder:02}/f{file}": ("file", b"x") for folder in range(FOLDERS) for file in range(FILES)
}


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, bool]]]:
    """Have small workspaces looked at by the helper, whose every answer is waited for.

    It lists for each look at what is known which of the folders asked about were as known.
    """
    said: list[dict[str, bool]] = []
    ask = preload._Helper.ask

    def asked(helper: preload._Helper, look: Preload, folders: list[preload._Asked]) -> None:
        before = len(helper.owing)
        ask(helper, look, folders)
        until = time.monotonic() + 60
        while helper.owing and time.monotonic() < until:
            with contextlib.suppress(HelperGoneError):
                helper.hear()
            time.sleep(0.001)
        told = [path for path, told, _ in folders if told is not None]
        if told and not before and helper.process is not None:
            said.append({path: path in look._same for path in told})

    for owner, name, value in (
        (preload, "_FEW", 0),
        (preload, "_FIRST_LOOKS", 0),
        (preload, "_FEW_READ", 0),
        (preload, "_FEW_READ_OF_TWO", 0),
        (preload._Helper, "ask", asked),
        (preload, "cores", lambda: 2),
    ):
        monkeypatch.setattr(owner, name, value)
    yield said
    preload._helper.end()


def read_here(chat: ChatStore) -> Snapshot:
    """Take a snapshot that knows nothing, and asks nobody."""
    with preload._helper.lock:
        return read_everything(chat)


def reads_here(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what will have the names of the files that are read from now on, but for the helper's."""
    names: list[str] = []
    read = folders.read_entry

    def heard(parent: int, name: str, *rest: Any, **more: Any) -> Any:
        names.append(name)
        return read(parent, name, *rest, **more)

    monkeypatch.setattr(snapshot, "read_entry", heard)
    return names


@pytest.fixture
def settled(chat: ChatStore) -> ChatStore:
    """A chat of which the next look has nothing to read."""
    put(chat.workspace, HELD)
    save(chat)
    settle()
    for _ in range(3):
        save(chat)
    return chat


@contextlib.contextmanager
def watching(*, watched: bool) -> Iterator[None]:
    """Watch, but never believe it, so that every look is at everything."""
    if watched:
        watches.begin(trusted_s=-1)
    try:
        yield
    finally:
        watches.end()


@pytest.mark.parametrize("watched", [False, True], ids=["", "watched"])
@settings(deadline=None, max_examples=examples(20))
@given(rounds=st.lists(st.lists(CHANGES, max_size=6), min_size=2, max_size=4))
def test_a_look_with_the_helper_is_the_one_that_reads_everything(
    *, watched: bool, rounds: list[list[tuple[str, str, str, bytes]]]
) -> None:
    config = WorkspaceConfig.model_validate({"durability": "fast", "ignore": ["node_modules/"]})
    with (
        watching(watched=watched),
        scratch() as folder,
        open_chats(folder, config).new("c1") as chat,
    ):
        put(chat.workspace, {path: ("file", path.encode()) for path in PATHS[:6]})
        for changes in rounds:
            save(chat)
            settle()
            save(chat)
            for one in changes:
                change(chat.workspace, *one)

            assert look(chat) == read_here(chat)
            assert look(chat) == read_here(chat)


WEIRD = st.sampled_from(
    [
        *PATHS,
        ".gitmodules",
        "d/.gitattributes",
        "d/nul.txt",
        "a~1",
        "b" * 200,
        "é",
        "link",
        "\udcff",
    ]
)
CONTENTS = st.one_of(
    st.sampled_from([b"", b"one", b"[submodule", b"x" * (1 << 16), b"x" * ((1 << 16) + 1)]),
    st.binary(max_size=64),
)


@settings(deadline=None, max_examples=examples(30))
@given(files=st.dictionaries(WEIRD, CONTENTS), others=st.lists(CHANGES, max_size=8))
@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_what_the_helper_reads_is_what_is_read_here(
    object_format: str, files: dict[str, bytes], others: list[tuple[str, str, str, bytes]]
) -> None:
    config = WorkspaceConfig.model_validate(
        {
            "durability": "fast",
            "ignore": ["node_modules/", "c.*"],
            "max_file_mb": 1,
            "object_format": object_format,
        }
    )
    with scratch() as folder, open_chats(folder, config).new("c1") as chat:
        put(chat.workspace, {"always": ("file", b"there")})
        for path, content in files.items():
            with contextlib.suppress(OSError):
                (chat.workspace / path).parent.mkdir(parents=True, exist_ok=True)
                (chat.workspace / path).write_bytes(content)
        for one in others:
            change(chat.workspace, *one)
        seen = look(chat)

        assert seen == read_here(chat)
        save(chat)
        assert fsck(chat) == ""
        assert look(chat) == read_here(chat)


def test_a_new_workspace_is_read_by_both(chat: ChatStore, monkeypatch: pytest.MonkeyPatch) -> None:
    put(chat.workspace, HELD | {f"f{number:04}": ("file", b"%d" % number) for number in range(500)})
    here = reads_here(monkeypatch)
    head = save(chat)

    assert tree_of(chat, head) == git_tree(layout_of(chat.workspace))
    assert 0.05 < len(here) / (500 + len(HELD)) < 0.2  # the helper is asked for the rest
    assert fsck(chat) == ""


@pytest.mark.parametrize(
    "paths",
    [
        [f"f{number:04}" for number in range(500)],
        [f"a/d{folder:02}/f{file}" for folder in range(100) for file in range(5)],
    ],
    ids=["a folder of files", "a folder of folders"],
)
def test_what_is_left_of_a_folder_is_read_by_both_once_much_of_it_was(
    chat: ChatStore, monkeypatch: pytest.MonkeyPatch, paths: list[str]
) -> None:
    put(chat.workspace, {path: ("file", path.encode()) for path in paths})
    monkeypatch.setattr(preload, "_FEW_READ", 50)
    here = reads_here(monkeypatch)
    head = save(chat)

    assert tree_of(chat, head) == git_tree(layout_of(chat.workspace))
    assert 50 < len(here) < 150
    assert fsck(chat) == ""


def test_the_folder_that_the_helper_is_at_is_not_read_twice(
    chat: ChatStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(chat.workspace, {"a": ("file", b"a"), "d0/f": ("file", b"0"), "d1/g": ("file", b"1")})
    monkeypatch.undo()
    for name, value in (("_FEW_READ", 0), ("cores", lambda: 2), ("_PATIENCE_S", 60)):
        monkeypatch.setattr(preload, name, value)
    here = reads_here(monkeypatch)
    tell, wait = HelperProcess.tell, HelperProcess.wait

    def told(helper: HelperProcess, content: bytes) -> None:
        tell(helper, content)
        helper._process.send_signal(signal.SIGSTOP)

    def awaited(helper: HelperProcess, milliseconds: int) -> None:
        helper._process.send_signal(signal.SIGCONT)
        wait(helper, milliseconds)

    monkeypatch.setattr(HelperProcess, "tell", told)
    monkeypatch.setattr(HelperProcess, "wait", awaited)
    head = save(chat)

    assert tree_of(chat, head) == git_tree(layout_of(chat.workspace))
    assert here == ["a", "f"]


def test_a_folder_that_the_helper_has_in_parts_is_not_waited_for(
    chat: ChatStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = ["a/d0/f", "a/d1/f", *(f"b/f{number:03}" for number in range(100))]
    put(chat.workspace, {path: ("file", path.encode()) for path in paths})
    waited: list[str] = []
    wait = preload.Preload.await_taken

    def awaited(ahead: Preload, path: str) -> None:
        waited.append(path)
        wait(ahead, path)

    monkeypatch.setattr(preload.Preload, "await_taken", awaited)
    head = save(chat)

    assert tree_of(chat, head) == git_tree(layout_of(chat.workspace))
    assert waited == ["a/d1"]


def test_the_next_folder_is_read_while_what_was_read_of_one_is_looked_at(
    chat: ChatStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [f"{one}/d{two}/f{three}" for one in "abc" for two in range(20) for three in range(3)]
    put(chat.workspace, {path: ("file", path.encode()) for path in paths})
    done: list[str] = []
    ask_new, folder = preload.Preload.ask_new, snapshot._Walk.folder

    def asked(ahead: Preload, path: str, *new: Any) -> bool:
        done.append(f"ask {path}")
        return ask_new(ahead, path, *new)

    def walked(
        walk: snapshot._Walk, handle: int, path: tuple[str, ...], *rest: Any, **more: Any
    ) -> Any:
        done.append(f"walk {'/'.join(path)}")
        return folder(walk, handle, path, *rest, **more)

    monkeypatch.setattr(preload.Preload, "ask_new", asked)
    monkeypatch.setattr(snapshot._Walk, "folder", walked)
    head = save(chat)

    assert tree_of(chat, head) == git_tree(layout_of(chat.workspace))
    assert done.index("ask b") < done.index("walk a/d19") < done.index("walk b")
    assert done.index("ask c") < done.index("walk b/d19") < done.index("walk c")
    assert [done.count(f"ask {one}") for one in ("", "a", "b", "c")] == [1, 1, 1, 1]


def test_folders_that_are_as_they_were_are_the_helpers(
    settled: ChatStore, asked: list[dict[str, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked.clear()
    here: list[str] = []
    changed_files = snapshot._Look.changed_files

    def heard(look: snapshot._Look, names: Iterable[str] | None) -> dict[str, bool]:
        here.append("/".join(look.path))
        return changed_files(look, names)

    monkeypatch.setattr(snapshot._Look, "changed_files", heard)
    (settled.workspace / "d19/f1").write_bytes(b"y")
    seen = look(settled)

    (said,) = asked
    assert len(said) == FOLDERS * preload._SHARE
    assert [path for path, same in said.items() if not same] == ["d19"]
    assert sorted(here) == ["", *sorted({path.split("/")[0] for path in HELD} - said.keys()), "d19"]
    assert seen == read_here(settled)


def rewrite(folder: Path) -> None:
    """Change a file, its size and modification time as they were."""
    status = (folder / "f2").stat()
    (folder / "f2").write_bytes(b"y")
    os.utime(folder / "f2", ns=(status.st_atime_ns, status.st_mtime_ns))


def replace(folder: Path) -> None:
    """Put a link to the folder in its place."""
    folder.rename(folder.with_name("moved"))
    folder.symlink_to("moved")


@pytest.mark.parametrize(
    "change_one",
    [
        rewrite,
        replace,
        lambda folder: (folder / "f2").chmod(0o755),
        lambda folder: (folder / "f2").unlink(),
        lambda folder: (folder / "f9").write_bytes(b"new"),
        lambda folder: (folder / "e").mkdir(),
        lambda folder: (folder / "f2").rename(folder / "f9"),
        lambda folder: (folder.parent.parent / "name").hardlink_to(folder / "f2"),
        lambda folder: folder.rename(folder.with_name("moved")),
    ],
    ids=["rewrite", "link", "mode", "gone", "new", "folder", "renamed", "hard link", "moved"],
)
def test_a_change_of_a_folder_of_the_helper_is_seen(
    settled: ChatStore, asked: list[dict[str, bool]], change_one: Callable[[Path], object]
) -> None:
    asked.clear()
    change_one(settled.workspace / "d18")
    seen = look(settled)

    assert not asked[0]["d18"]
    assert asked[0]["d17"]
    assert seen == read_here(settled)


def test_no_link_on_the_way_leads_the_helper_elsewhere(chat: ChatStore, tmp_path: Path) -> None:
    """Where the walk saw a folder a link may stand by the time the helper comes."""
    put(tmp_path, {"outside/inner/secret": ("file", b"secret")})
    put(chat.workspace, {"real/inner/secret": ("file", b"open")})
    (chat.workspace / "link").symlink_to(tmp_path / "outside")
    with preload.preload(chat.workspace, "sha1") as ahead:
        assert ahead is not None
        heard: dict[str, dict[str, preload.Read]] = {}

        def take(path: str, read: dict[str, preload.Read]) -> dict[str, preload.Taken]:
            heard.setdefault(path, {}).update(read)
            return {}

        ahead.take = take
        ahead.ask_new("link", ["inner"] * 3, [])
        ahead.ask_new("real", ["inner"] * 3, [])

    assert heard.keys() == {"link/inner", "real/inner"}
    assert heard["link/inner"] == {}
    assert heard["real/inner"]["secret"][5].hex() == blob_id(b"open", "sha1")


@pytest.mark.parametrize("name", [".git", "node_modules", "x\x01"])
def test_nothing_of_a_folder_that_is_left_out_is_stored(chat: ChatStore, name: str) -> None:
    """It comes after others, so that it is one of the last, which the helper is asked for."""
    put(chat.workspace, {f"-{number:02}/f": ("file", b"x") for number in range(FOLDERS)})
    put(chat.workspace, {f"{name}/config": ("file", b"secret")})

    save(chat)

    with pytest.raises(BrokenStoreError):
        chat.store.read_blob(blob_id(b"secret", "sha1"))
    assert chat.store.read_blob(blob_id(b"x", "sha1")) == b"x"


def test_nothing_of_an_ignored_file_is_stored(chat: ChatStore) -> None:
    chat.config = WorkspaceConfig(ignore=("*.key",))
    put(chat.workspace, HELD)
    put(chat.workspace, {f"d{number:02}/a.key": ("file", b"secret") for number in range(FOLDERS)})

    save(chat)

    with pytest.raises(BrokenStoreError):
        chat.store.read_blob(blob_id(b"secret", "sha1"))
    assert chat.store.read_blob(blob_id(b"x", "sha1")) == b"x"


def test_once_asked_for_others_the_helper_reads_none_of_those_before(tmp_path: Path) -> None:
    put(tmp_path, {f"d{number}/f": ("file", b"%d" % number) for number in range(4)})
    status = (tmp_path / "d1").stat()
    told = marshal.dumps(((status.st_ctime_ns, status.st_ino, status.st_dev), {}))
    before = [("d0", None, None), ("d1", told, None), ("d2", None, ["f"])]
    helper = HelperProcess(Path(preload.__file__).with_name("preloader.py"))
    try:
        questions = b""
        for asked in (before, [("d3", None, None)]):
            question = marshal.dumps((str(tmp_path), "sha1", asked))
            questions += len(question).to_bytes(8, "big") + question
        helper.tell(questions)
        answers: list[bool | dict[str, preload.Read]] = []
        heard, until = b"", time.monotonic() + 60
        while len(answers) < 4 and time.monotonic() < until:
            heard += helper.answered()
            while (end := 4 + int.from_bytes(heard[:4], "big")) <= len(heard):
                answers.append(marshal.loads(heard[4:end]))
                heard = heard[end:]
    finally:
        helper.close()

    *left, last = answers
    assert left == [False, True, False]
    assert isinstance(last, dict)
    assert last["f"][5].hex() == blob_id(b"3", "sha1")


def test_what_is_done_in_a_new_folder_before_it_is_watched_is_not_missed(
    chat: ChatStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(chat.workspace, HELD)
    watches.begin(trusted_s=3600)
    try:
        for _ in range(4):
            settle()
            save(chat)
        late = chat.workspace / "new/folder9/f"
        put(chat.workspace, {f"new/folder{number}/f": ("file", b"early") for number in range(10)})
        ask = preload._Helper.ask

        def asked(helper: preload._Helper, look: Preload, folders: list[preload._Asked]) -> None:
            ask(helper, look, folders)
            if "new/folder9" in {path for path, _, _ in folders}:  # it was read by now
                late.write_bytes(b"later")

        monkeypatch.setattr(preload._Helper, "ask", asked)
        save(chat)
        head = save(chat)

        assert tree_of(chat, head) == git_tree(layout_of(chat.workspace))
    finally:
        watches.end()


def test_what_was_read_and_is_not_stored_any_more_is_not_taken(tmp_path: Path) -> None:
    taken: preload.Taken = (0, 0, 0, 1, 0o100644, b"id"), 1
    look = preload.Preload(str(tmp_path), "sha1", lambda _, read: dict.fromkeys(read, taken))
    for _ in range(2):
        look.expect(iter(["d"]))
        look.hear("d", {"f": (0, 0, 0, 1, 0o100644, b"id", 0, 1, b"stream")})
        assert look.taken("d") == {"f": taken}
        look.forget()
        assert look.taken("d") == {}


def test_a_helper_that_is_killed_is_done_without_and_started_again(
    settled: ChatStore, asked: list[dict[str, bool]]
) -> None:
    helper = preload._helper.process
    assert helper is not None
    helper._process.kill()
    helper._process.wait()
    asked.clear()
    (settled.workspace / "d19/f1").write_bytes(b"y")

    assert look(settled) == read_here(settled)
    assert asked == []
    save(settled)
    assert look(settled) == read_here(settled)
    assert len(asked) == 1


def test_nobody_waits_long_for_a_helper(
    settled: ChatStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    for name, value in (("_FEW", 0), ("_BEHIND", 5), ("cores", lambda: 2)):
        monkeypatch.setattr(preload, name, value)
    monkeypatch.setattr(preload, "_FEW_READ", 0)
    helper = preload._helper.process
    assert helper is not None
    helper._process.send_signal(signal.SIGSTOP)
    try:
        for number in range(3):
            (settled.workspace / "d19/f1").write_bytes(b"%d" % number)
            (settled.workspace / f"new{number}").mkdir()
            (settled.workspace / f"new{number}/f").write_bytes(b"new")
            assert look(settled) == read_here(settled)
            save(settled)
        assert len(preload._helper.owing) == FOLDERS * preload._SHARE  # asked once, and no more
    finally:
        helper._process.send_signal(signal.SIGCONT)
    until = time.monotonic() + 60
    while preload._helper.owing and time.monotonic() < until:
        preload._helper.hear()
    (settled.workspace / "d19/f1").write_bytes(b"at last")
    assert look(settled) == read_here(settled)


def test_a_helper_that_takes_nothing_is_ended(
    settled: ChatStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    helper = preload._helper.process
    assert helper is not None
    monkeypatch.undo()
    helper._process.send_signal(signal.SIGSTOP)
    with pytest.raises(HelperGoneError, match="does not take"):
        helper.tell(b"x" * (4 << 20))
    preload._helper.end()

    assert helper._process.returncode == -signal.SIGKILL
    assert look(settled) == read_here(settled)


def test_what_a_helper_answered_before_it_ended_is_heard(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\n"
        "sys.stdout.buffer.write(b'early')\n"
        "sys.stdout.buffer.flush()\n"
        "sys.stdin.buffer.read(3 << 20)\n"
    )
    helper = HelperProcess(program)
    helper.tell(b"x" * (3 << 20))
    helper._process.wait(30)

    assert helper.answered() == b"early"
    with pytest.raises(HelperGoneError):
        helper.answered()
    helper.close()


def test_a_helper_is_told_much_while_it_answers_much(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import os, sys\n"
        "for number in range(4):\n"
        "    sys.stdout.buffer.write(bytes([number]) * (2 << 20))\n"
        "    sys.stdout.buffer.flush()\n"
        "    sys.stdin.buffer.read(2 << 20)\n"
    )
    helper = HelperProcess(program)
    for _ in range(4):
        helper.tell(b"x" * (2 << 20))
    answer = b""
    with contextlib.suppress(HelperGoneError):
        while True:
            answer += helper.answered()
    helper.close()

    expected = b"".join(bytes([number]) * (2 << 20) for number in range(4))
    assert len(answer) == len(expected)
    assert answer == expected


def test_a_fork_leaves_the_helper_to_its_parent(
    settled: ChatStore, asked: list[dict[str, bool]]
) -> None:
    child = os.fork()
    if not child:
        with contextlib.suppress(BaseException):
            alone = preload._helper.process is None
            opened = [os.open("/dev/null", os.O_RDONLY) for _ in range(8)]
            gc.collect()
            for handle in opened:  # none was closed in place of the parent's pipes
                os.close(handle)
            same = look(settled) == read_here(settled)
            os._exit(0 if alone and same else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    asked.clear()
    (settled.workspace / "d19/f1").write_bytes(b"y")

    assert look(settled) == read_here(settled)
    assert len(asked) == 1


def test_a_small_workspace_and_a_command_have_none(
    settled: ChatStore, asked: list[dict[str, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    preload._helper.end()
    asked.clear()
    monkeypatch.setattr(preload, "_FEW", FOLDERS * FILES + 1)
    look(settled)
    monkeypatch.setattr(preload, "_FEW", FOLDERS * FILES)
    monkeypatch.setattr(preload, "_FIRST_LOOKS", preload._helper.looks + 1)
    look(settled)
    assert preload._helper.process is None
    look(settled)
    assert preload._helper.process is not None
    assert len(asked) == 1


PROCESS = """
import sys, time
from pathlib import Path
from covalt_git.workspaces import preload
from tests.workspaces.stores import open_chats
preload._FEW = preload._FIRST_LOOKS = 0
preload.cores = lambda: 2
with open_chats(Path(sys.argv[1])).open("c1") as chat:
    with chat.looking():
        pass
    print(preload._helper.process._process.pid, flush=True)
    time.sleep(float(sys.argv[2]))
"""


def runs(process: str) -> bool:
    """Tell whether a process is there that has not ended."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def waited(happens: Callable[[], bool]) -> bool:
    """Wait until something has happened; a new process has no command for a moment."""
    until = time.monotonic() + 30
    while not happens() and time.monotonic() < until:
        time.sleep(0.01)
    return happens()


@pytest.mark.parametrize("ending", ["ends", "is killed"])
def test_the_helper_ends_with_its_process(settled: ChatStore, ending: str) -> None:
    command = [sys.executable, "-c", PROCESS, str(settled.folder.parents[1])]
    command.append("60" if ending == "is killed" else "0")
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        helper = process.stdout.readline().strip()
        if ending == "is killed":
            assert waited(lambda: b"preloader.py" in Path(f"/proc/{helper}/cmdline").read_bytes())
            process.kill()
        process.wait()

    assert waited(lambda: not runs(helper))
