"""An import of an exported chat or of a git history is complete or changes nothing."""

import hashlib
import io
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.errors import CovaltError
from covalt_git.transfers.admission import NotAdmittedError
from covalt_git.transfers.exporting import export
from covalt_git.transfers.importing import ImportedChat, import_bundle, import_path
from covalt_git.workspaces import records
from covalt_git.workspaces.chat import ChatStore
from covalt_git.workspaces.registry import Chats
from covalt_git.workspaces.writing import writing
from tests.examples import EVERY, examples
from tests.killing import killed_at
from tests.transfers.test_admission import put_blob, put_commit, put_object, put_tree
from tests.workspaces.stores import (
    add_message,
    branch_off,
    checkout,
    commit_all,
    export_to,
    fsck,
    git,
    layout_of,
    open_chats,
    run_git,
    save,
    scratch,
    upload,
)

LONG = "a long text, a record of its own " * 1000


@pytest.fixture
def bundle(chat: ChatStore, tmp_path: Path) -> Path:
    """An export of a chat with two branches and a record, on the branch idea."""
    upload(chat, "a.txt", b"a")
    add_message(chat, LONG)
    branch_off(chat, "idea")
    (chat.workspace / "empty").mkdir()
    upload(chat, "b.txt", b"b")
    path = tmp_path / "chat.bundle"
    export_to(chat, path)
    return path


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A repository of stock git with a history, a merge, a tag and a branch."""
    path = tmp_path / "work"
    git(tmp_path, "init", "-q", "-b", "trunk", str(path))
    (path / "src").mkdir()
    (path / "src/run.sh").write_text("#!/bin/sh\n")
    (path / "src/run.sh").chmod(0o755)
    (path / "link").symlink_to("src/run.sh")
    (path / "con").write_text("a device on Windows\n")
    commit_all(path, "first: the subject\n\na body\n\nand more")
    git(path, "checkout", "-q", "-b", "topic")
    (path / "topic.txt").write_text("topic\n")
    commit_all(path)
    git(path, "checkout", "-q", "trunk")
    git(path, "merge", "-q", "--no-ff", "-m", "join them", "topic")
    git(path, "tag", "-a", "v1", "-m", "a tag")
    return path


def stock_bundle(store: Path, path: Path, *refs: str) -> Path:
    git(store, "bundle", "create", "-q", str(path), *(refs or ("--all",)))
    return path


def brought(chats: Chats, source: Path, **options: str) -> tuple[ImportedChat, ChatStore]:
    found = import_path(chats, source, **options)
    opened = chats.open(found.chat_id)
    with writing(opened):
        pass
    return found, opened


def nothing_came(chats: Chats) -> bool:
    return not chats.folder.exists() or [path.name for path in chats.folder.iterdir()] in (
        [],
        ["c1"],
    )


def test_an_export_comes_back_alike(bundle: Path, chat: ChatStore, tmp_path: Path) -> None:
    found, again = brought(open_chats(tmp_path / "elsewhere"), bundle)
    with again:
        assert found == ImportedChat("c1", "c1", ("idea", "main"), 4, (), ())
        assert again.head() == chat.head()
        was = layout_of(chat.workspace)
        assert was.pop("empty") == ("folder", b"")  # a record says it, which is not believed here
        assert layout_of(again.workspace) == was
        assert fsck(again) == ""
        assert [one.title for one in again.log(again.head())] == [
            f"push (made elsewhere): {subject}"
            for subject in (
                "user_upload: b.txt",
                "edit: empty folders",
                "message: said",
                "user_upload: a.txt",
            )
        ]
        assert again.card().created_at == chat.card().created_at


@pytest.mark.parametrize("kind", ["bundle", "repository", "bare"])
def test_a_history_of_stock_git_becomes_a_chat(
    work: Path, chats: Chats, tmp_path: Path, kind: str
) -> None:
    source = work
    if kind == "bundle":
        source = stock_bundle(work, tmp_path / "work.bundle")
    elif kind == "bare":
        git(tmp_path, "clone", "-q", "--bare", str(work), "bare.git")
        source = tmp_path / "bare.git"

    found, chat = brought(chats, source)

    with chat:
        assert found == ImportedChat(
            "c1", None, ("topic", "trunk"), 3, found.unportable, ("refs/tags/v1",)
        )
        assert [note.path for note in found.unportable] == ["con"]
        assert chat.active_branch() == "trunk"
        assert layout_of(chat.workspace) == {
            path: what for path, what in layout_of(work).items() if not path.startswith(".git/")
        }
        top, first = chat.log(chat.head())
        assert (top.source, top.title, len(top.parents)) == (
            "push",
            "push (made elsewhere): join them",
            2,
        )
        assert (first.title, first.record.by) == (
            "push (made elsewhere): first: the subject",
            "Ann",
        )
        assert fsck(chat) == ""
        assert upload(chat, "more.txt", b"more") == "more.txt"
        assert chat.read_file(chat.head(), "src/run.sh") == b"#!/bin/sh\n"


def test_what_is_no_whole_history_is_refused(work: Path, chats: Chats, tmp_path: Path) -> None:
    stock_bundle(work, tmp_path / "part", "topic~1..topic")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{work}", "shallow")
    git(work, "worktree", "add", "-q", str(tmp_path / "linked"), "topic")
    (tmp_path / "text").write_text("hello")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    git(tmp_path, "init", "-q", "unborn")

    for name in ("part", "shallow", "linked", "text", "empty", "folder", "unborn", "missing"):
        with pytest.raises(CovaltError) as caught:
            import_path(chats, tmp_path / name)
        assert str(chats.folder) not in caught.value.message
        assert nothing_came(chats)


def test_what_must_not_come_in_names_path_and_commit(chats: Chats, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "bad.git")
    bad = tmp_path / "bad.git"
    commit = put_commit(bad, put_tree(bad, ("100644", b".git", put_blob(bad))))
    git(bad, "update-ref", "refs/heads/main", commit)
    top = put_commit(bad, put_tree(bad), commit)
    git(bad, "update-ref", "refs/heads/main", top)

    for source in (bad, stock_bundle(bad, tmp_path / "bad.bundle")):
        with pytest.raises(NotAdmittedError) as caught:
            import_path(chats, source)
        (problem,) = caught.value.problems
        assert commit[:12] in problem.message
        assert nothing_came(chats)


# Packs that are made to harm


EMPTY_PACK = b"PACK" + struct.pack(">II", 2, 0)
EMPTY_PACK += hashlib.sha1(EMPTY_PACK).digest()


def bundle_of(*refs: str, pack: bytes = EMPTY_PACK) -> bytes:
    return "\n".join(["# v2 git bundle", *refs, "", ""]).encode() + pack


MAIN = "12" * 20 + " refs/heads/main"
# tests/server/git/test_hostile_pushes.py has packs that contradict themselves.
HOSTILE = {
    "nothing of what its refs name": bundle_of(MAIN),
    "a damaged pack": bundle_of(MAIN, pack=EMPTY_PACK[:-1] + b"x"),
    "no pack": bundle_of(MAIN, pack=b""),
    "no refs": bundle_of("nonsense"),
    "a ref with a space": bundle_of("12" * 20 + " refs/heads/a b"),
    "a ref that leads out": bundle_of("12" * 20 + " refs/heads/../../HEAD"),
    "an endless line": b"# v2 git bundle\n" + b"a" * 100_000,
    "another hash": b"# v3 git bundle\n@object-format=md5\n\n",
    "a filter": b"# v3 git bundle\n@filter=blob:none\n\n",
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_hostile_bundles_are_refused(tmp_path: Path, content: bytes) -> None:
    chats = open_chats(tmp_path)

    with pytest.raises(CovaltError) as caught:
        import_bundle(chats, io.BytesIO(content))

    assert str(chats.folder) not in str(caught.value)
    assert nothing_came(chats)


@settings(max_examples=examples(60), deadline=None)
@given(at=st.integers(0, 2000), byte=st.integers(0, 255), cut=st.booleans())
def test_a_bundle_that_was_tampered_with_is_refused_or_is_the_same(
    at: int, byte: int, *, cut: bool
) -> None:
    with scratch() as folder:
        chats = open_chats(folder)
        with chats.new() as chat:
            upload(chat, "a.txt", b"a" * 300)
            upload(chat, "b.txt", b"b")
            file = io.BytesIO()
            export(chat, file)
            head, tree = chat.head(), chat.files(chat.head())
        content = bytearray(file.getvalue())
        at %= len(content)
        content[at] = byte
        given_file = io.BytesIO(content[:at] if cut else content)
        try:
            found = import_bundle(chats, given_file)
        except CovaltError:
            assert [path.name for path in chats.folder.iterdir()] == ["c1"]
            return
        with chats.open(found.chat_id) as again:
            assert fsck(again) == ""
            assert again.head() == head
            assert again.files(head) == tree


@pytest.fixture
def copy(bundle: Path, tmp_path: Path) -> Path:
    """A repository of the exported chat, to be tampered with."""
    git(tmp_path, "clone", "-q", "--mirror", str(bundle), "copy.git")
    return tmp_path / "copy.git"


def test_records_that_were_altered_are_refused(copy: Path, chats: Chats) -> None:
    listed = git(copy, "ls-tree", "-r", records.REF).split()
    folder, name = listed[3].split("/")
    forged = put_blob(copy, b'"another text"')
    tree = put_tree(
        copy, ("40000", folder.encode(), put_tree(copy, ("100644", name.encode(), forged)))
    )
    git(copy, "update-ref", records.REF, put_commit(copy, tree))

    with pytest.raises(CovaltError, match="was altered"):
        import_path(chats, copy)

    assert nothing_came(chats)


def test_a_bundle_without_a_chat_is_refused(copy: Path, chats: Chats) -> None:
    git(copy, "update-ref", "refs/covalt/chat", put_object(copy, "blob", b"x"))

    with pytest.raises(CovaltError) as caught:
        import_path(chats, copy)

    assert str(chats.folder) not in str(caught.value)
    assert nothing_came(chats)


@pytest.mark.kills
def test_a_killed_import_leaves_a_whole_chat_or_none(bundle: Path, chats: Chats) -> None:
    chats.delete("c1")
    ends = set()
    for steps in [*range(1, 60, EVERY), 1000]:
        killed_at(steps, lambda: import_path(chats, bundle))
        ids = chats.ids()
        ends.add(len(ids))
        for chat_id in ids:
            with chats.open(chat_id) as chat:
                save(chat)
                checkout(chat, "main")
                assert fsck(chat) == ""
            chats.delete(chat_id)
        chats.new("probe").store.close()
        assert [path.name for path in chats.folder.iterdir()] == ["probe"]
        chats.delete("probe")
    assert ends == {0, 1}


def test_a_chat_of_sha256_comes_back_alike(tmp_path: Path) -> None:
    config = open_chats(tmp_path).config.model_copy(update={"object_format": "sha256"})
    with open_chats(tmp_path, config).new() as chat:
        upload(chat, "a.txt", b"a")
        export_to(chat, tmp_path / "wide.bundle")
        head = chat.head()
    git(tmp_path, "init", "-q", "--object-format=sha256", "work")
    (tmp_path / "work/x").write_text("x")
    commit_all(tmp_path / "work")

    for source in ("wide.bundle", "work"):
        _, again = brought(open_chats(tmp_path), tmp_path / source)
        with again:
            assert again.store.object_format == "sha256"
            assert source == "work" or again.head() == head
            assert fsck(again) == ""
            upload(again, "b.txt", b"b")
    assert run_git(tmp_path, "bundle", "list-heads", "wide.bundle").returncode == 0
