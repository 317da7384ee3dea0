"""``git push`` to a chat: new states and branches, refusals, and broken connections."""

import io
import random
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from covalt_git.git_store.serving import Command, PushRequest
from covalt_git.project import Project
from covalt_git.transfers import pushing
from covalt_git.workspaces.writing import writing
from tests.api_client import Api
from tests.server.git.git_served import (
    FETCH,
    FLUSH,
    NONE,
    PUSH,
    GitServed,
    chat_with_files,
    commit,
    commit_content,
    entry,
    git,
    git_served,
    oid_of,
    pack_of,
    run,
)


@pytest.fixture
def served(api: Api) -> Iterator[GitServed]:
    """A served project with the chat c1, in which are two states."""
    chat_with_files(api)
    with git_served(api.root) as served:
        yield served


@pytest.fixture
def work(served: GitServed, tmp_path: Path) -> Path:
    """A clone of that chat."""
    return served.clone(tmp_path / "work")


def test_a_pushed_branch_has_its_states_at_once(served: GitServed, api: Api, work: Path) -> None:
    git(work, "checkout", "--quiet", "-b", "try/green")
    tip = commit(work, "paint it green", colour="green\n")
    git(work, "push", "--quiet", "origin", "try/green")

    assert served.refs()["refs/heads/try/green"] == tip
    assert served.fsck() == ""
    state = api.get("get_workspace_manifest", chat_id="c1", manifest="try/green")
    assert (state["source"], state["id"], state["by"]) == ("push", tip, "Ann")
    assert not (served.workspace() / "colour").exists()
    page = served.ask("GET", f"/chats/c1/states/{tip}", Accept="text/html")
    assert "paint it green" in page.text
    api.post("switch_branch", chat_id="c1", branch="try/green")
    assert (served.workspace() / "colour").read_text() == "green\n"


def test_the_workspace_follows_its_branch(served: GitServed, work: Path) -> None:
    (work / "a.txt").unlink()
    (work / "run.sh").write_text("#!/bin/sh\n")
    (work / "run.sh").chmod(0o755)
    (work / "link").symlink_to("sub/deep")
    tip = commit(work, "much", b="new\n")
    git(work, "push", "--quiet", "origin", "main")

    assert served.refs() == {"refs/heads/main": tip}
    folder = served.workspace()
    names = {path.name for path in folder.iterdir()}
    assert names == {"b", "run.sh", "link", "sub"}
    assert (folder / "run.sh").stat().st_mode & 0o111
    assert (folder / "link").readlink() == Path("sub/deep")


def test_edits_are_committed_before_a_push_and_refuse_it(
    served: GitServed, api: Api, work: Path
) -> None:
    (served.workspace() / "notes.txt").write_text("unsaved\n")
    commit(work, "too late", late="1\n")
    told = run(work, "push", "origin", "main")

    assert told.code == 1
    assert re.search(r"! \[rejected\] +main -> main \(fetch first\)", told.text)
    assert "hint: git pull, and push again" in told.text
    assert (served.workspace() / "notes.txt").read_text() == "unsaved\n"
    git(work, "pull", "--quiet", "--rebase")
    git(work, "push", "--quiet")
    assert {path.name for path in served.workspace().iterdir()} == {
        *("a.txt", "late", "notes.txt", "sub")
    }
    sources = [one["source"] for one in api.get("list_manifests", chat_id="c1")["manifests"]]
    assert sources == ["push", "edit", "user_upload", "user_upload"]


@pytest.mark.rest
def test_a_large_push_comes_in_chunks(served: GitServed, work: Path) -> None:
    chance = random.Random(3)
    for number in range(2):
        (work / f"big{number}").write_bytes(chance.randbytes(1 << 20))
    tip = commit(work, "2 MiB")
    assert served.send(PUSH, FLUSH).body == b""  # which git asks before a large push
    options = ("-c", "http.extraHeader=Expect: 100-continue", "-c", "http.postBuffer=65536")
    git(work, *options, "push", "--quiet", "origin", "main:big")

    assert served.refs()["refs/heads/big"] == tip
    assert served.fsck() == ""
    again = served.clone(work.parent / "again", "--branch", "big")
    assert (again / "big1").read_bytes() == (work / "big1").read_bytes()


@pytest.mark.rest
def test_sha256_chats_are_cloned_and_pushed(api: Api, tmp_path: Path) -> None:
    config = "workspace: {durability: fast, max_file_mb: 1, object_format: sha256}\n"
    (api.root / "covalt.yaml").write_text(f"version: 1\n{config}")
    api.post("create_chat", chat_id="wide")
    with git_served(api.root) as served:
        git(tmp_path, "init", "--quiet", "--object-format=sha256", "-b", "main", "mine")
        tip = commit(tmp_path / "mine", "mine", file="content\n")
        git(tmp_path / "mine", "push", "--quiet", served.url("wide"), "main")
        for version in ("0", "2"):
            work = served.clone(tmp_path / f"v{version}", chat_id="wide", version=version)
            assert git(work, "rev-parse", "HEAD") == tip
        tip = commit(work, "again", file="other\n")
        git(work, "push", "--quiet", "origin", "main")

        assert served.refs("wide") == {"refs/heads/main": tip}
        assert served.fsck("wide") == ""
        sha1 = tmp_path / "sha1"
        git(tmp_path, "init", "--quiet", "sha1")
        commit(sha1, "other", file="content\n")
        assert run(sha1, "push", served.url("wide"), "HEAD:refs/heads/x").code != 0


# Refused pushes


def refused(served: GitServed, folder: Path, *arguments: str) -> str:
    """Push what is refused; check that it changed nothing, and return what git prints."""
    before = served.refs(), served.files_of_store()
    told = run(folder, "push", "origin", *arguments)
    assert told.code != 0, told.text
    assert (served.refs(), served.files_of_store()) == before
    assert served.fsck() == ""
    return told.text


def test_a_push_overwrites_and_deletes_no_branch(served: GitServed, work: Path) -> None:
    git(work, "push", "--quiet", "origin", "main:idea")
    git(work, "commit", "--quiet", "--amend", "-m", "another past")
    for name in ("idea", "main"):
        told = refused(served, work, f"+main:{name}")
        assert f"[remote rejected] main -> {name} (non-fast-forward)" in told
        assert f"git push origin HEAD:{name}-2" in told
    told = refused(served, work, "--delete", "idea")
    assert "[remote rejected] idea" in told
    assert "hint: covalt-git chat branch delete c1 idea" in told


def test_only_branches_with_portable_names_are_pushed(served: GitServed, work: Path) -> None:
    commit(work, "more", more="1\n")
    for ref in ("tags/v1", "covalt/records", "covalt/calls/1", "covalt/chat", "notes/x", "heads"):
        assert "[remote rejected]" in refused(served, work, f"+main:refs/{ref}")
    tip = served.refs()["refs/heads/main"]
    before = served.files_of_store()
    names = ("HEAD", "ünder", "a:b", "a..b", "x.lock", "a//b", "-x", "a b")
    whole = [f"refs/heads/{name}" for name in names]
    for ref in (*whole, "HEAD", "main", "../heads/x", "refs/heads/../../HEAD"):
        assert served.send_push(ref, tip, pack_of()).startswith(f"unpack ok\nng {ref} ")
        assert served.files_of_store() == before
    assert "[remote rejected]" in refused(served, work, "main:refs/heads/main/x")
    run(work, "push", "origin", "main:refs/heads/a", "main:refs/heads/a/b")
    assert set(served.refs()) == {"refs/heads/main", "refs/heads/a"}


def test_a_push_to_a_busy_chat_is_refused_after_a_while(served: GitServed) -> None:
    tip = served.refs()["refs/heads/main"]
    asked = PushRequest((Command("refs/heads/x", None, tip),), frozenset({"report-status"}))
    chats = Project.open(served.root).chats
    with chats.open("c1") as chat, chats.open("c1") as other, writing(other):
        report = pushing.push(chat, asked, io.BytesIO(pack_of()), timeout_s=0)

    assert "is busy" in report.refused["refs/heads/x"]
    assert set(served.refs()) == {"refs/heads/main"}


def test_a_refused_branch_does_not_stop_the_others(served: GitServed, work: Path) -> None:
    tip = commit(work, "good", good="1\n")
    git(work, "checkout", "--quiet", "-b", "bad", "origin/main")
    (work / "out").symlink_to("/etc/passwd")
    commit(work, "bad")
    told = run(work, "push", "origin", "main:good", "bad", "main:refs/tags/t")

    assert told.code == 1
    assert "[new branch]      main -> good" in told.text
    assert "[remote rejected] bad -> bad (out: it is a link that may lead outside" in told.text
    assert served.refs()["refs/heads/good"] == tip
    assert run(served.store(), "cat-file", "-e", git(work, "rev-parse", "bad")).code != 0
    assert served.fsck() == ""


def test_one_of_concurrent_pushes_wins(served: GitServed, tmp_path: Path) -> None:
    works = [served.clone(tmp_path / f"w{number}") for number in range(4)]
    tips = [commit(work, f"{work.name} was here", mine=work.name) for work in works]
    told: list[str] = []

    def push(work: Path) -> None:
        told.append(run(work, "push", "origin", "main", "main:new").text)

    threads = [threading.Thread(target=push, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    refs = served.refs()

    assert refs["refs/heads/main"] in tips
    assert refs["refs/heads/new"] in tips
    assert sum(bool(re.search(r"  main -> main\n", text)) for text in told) == 1
    assert sum(bool(re.search(r"branch\] +main -> new\n", text)) for text in told) == 1
    winner = works[tips.index(refs["refs/heads/main"])].name
    assert (served.workspace() / "mine").read_text() == winner
    assert served.fsck() == ""


# Broken connections


def test_a_push_that_is_cut_off_stores_nothing(served: GitServed) -> None:
    content = entry("blob", random.Random(1).randbytes(1 << 19))
    tip = oid_of("commit", commit_content("1" * 40))
    whole = pack_of(content, content)
    before = served.files_of_store()
    for end in (0, 1, 11, 12, 13, 500, len(whole) - 21, len(whole) - 1):
        report = served.send_push("refs/heads/x", tip, whole[:end])

        assert report.startswith("unpack the pack is cut off")
        assert report.endswith("ng refs/heads/x unpacker error")
        assert served.files_of_store() == before
    assert served.send(FETCH, FLUSH).status == 200
    assert NONE not in served.refs().values()
