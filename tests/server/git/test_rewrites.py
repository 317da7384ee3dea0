"""Commits of a chat that stock git or another chat rewrote, and that are pushed back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api_client import Api, answered, form_file
from tests.server.git.git_served import GitServed, chat_with_files, git, git_served


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


@pytest.mark.parametrize(
    ("commands", "foreign"),
    [
        (["commit --quiet --amend --no-edit --date 2030-01-01T00:00:00Z"], 1),
        (["rebase --quiet --onto HEAD~3 HEAD~2"], 2),
        (["checkout --quiet HEAD~2", "cherry-pick main"], 1),
        (
            [
                "checkout --quiet HEAD~1",
                "commit --quiet --allow-empty -m mine",
                "merge --quiet --no-edit main",
            ],
            0,
        ),
    ],
    ids=["amend", "rebase", "cherry-pick", "merge"],
)
def test_rewritten_commits_are_made_elsewhere_and_can_be_continued(
    served: GitServed, api: Api, work: Path, commands: list[str], foreign: int
) -> None:
    for name in ("b.txt", "c.txt"):
        api.write(name, "one\n")
    git(work, "pull", "--quiet")
    own = set(git(work, "rev-list", "main").split())
    for one in commands:
        git(work, *one.split())
    git(work, "push", "--quiet", "origin", "HEAD:refs/heads/again")
    tip = git(work, "rev-parse", "HEAD")
    api.post("switch_branch", chat_id="c1", branch="again")
    api.write("d.txt", "on top\n")
    made = {
        one["id"]: (one["made"], one["source"], one["title"])
        for one in api.get("list_manifests", chat_id="c1", branch="again")["manifests"]
    }
    call = made.pop(served.refs()["refs/heads/again"])

    assert call[:2] == ("here", "tool_run")
    assert {oid for oid, facts in made.items() if facts[0] == "here"} == own & set(made)
    rewritten = [title for where, _, title in made.values() if "tool_run" in title]
    assert rewritten == ["push (made elsewhere): tool_run: app-builder:write_file"] * foreign
    state = api.get("get_workspace_manifest", chat_id="c1", manifest=tip)
    assert (state["made"], state["source"], state["by"]) == ("elsewhere", "push", by_of(work, tip))
    assert state["record"].keys() == {"id", "at", "by"}
    page = served.ask("GET", f"/chats/c1/states/{tip}", Accept="text/html").text
    assert "Push (made elsewhere): " in page
    assert "<dd>push, made elsewhere</dd>" in page
    assert len(api.get("list_calls", chat_id="c1")["calls"]) == 3
    assert served.fsck() == ""


def by_of(work: Path, commit: str) -> str:
    return git(work, "log", "-1", "--format=%an", commit)


def test_commits_of_an_exported_chat_come_back_as_their_own(
    served: GitServed, api: Api, work: Path
) -> None:
    api.write("b.txt", "one\n")
    with api.ask("export_chat", chat_id="c1") as sent:
        bundle = sent.get_data()
    answer = api.send_form("import_chat", {"file": form_file("c1.bundle", bundle)})
    chat_id = answered(answer)["chat"]["id"]
    away = api.get("list_manifests", chat_id=chat_id)["manifests"]
    git(work, "fetch", "--quiet", served.url(chat_id), "main")
    git(work, "push", "--quiet", "origin", "FETCH_HEAD:refs/heads/back")
    back = api.get("list_manifests", chat_id="c1", branch="back")["manifests"]

    assert [one["id"] for one in back] == [one["id"] for one in away]
    assert {one["made"] for one in away} == {"elsewhere"}
    assert api.get("list_calls", chat_id=chat_id)["calls"] == []
    assert {one["made"] for one in back} == {"here"}
    assert (back[0]["source"], back[0]["status"]) == ("tool_run", "success")
