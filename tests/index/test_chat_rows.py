"""The index answers about chats what their stores hold."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from covalt_git.workspaces.chat import ChatStore, finished_call, waiting_call
from tests.index.rows import chats_of, open_index, synced
from tests.workspaces.stores import as_listed

if TYPE_CHECKING:
    from covalt_git.index.index import Index


@pytest.fixture(scope="module")
def lively_index(lively_project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    with open_index(lively_project, tmp_path_factory.mktemp("index") / "index.db") as index:
        index.sync()
        yield index


@pytest.fixture(scope="module")
def c1(lively_project: Path) -> Iterator[ChatStore]:
    with chats_of(lively_project).as_left("c1") as chat:
        yield chat


def test_chats_are_listed_newest_first_with_the_facts_of_their_stores(
    lively_project: Path, lively_index: Index
) -> None:
    rows = lively_index.chat_rows()

    assert [row["id"] for row in rows] == ["c2", "empty", "c1"]
    assert lively_index.chat_rows(2) == rows[:2]
    assert [lively_index.chat_row(row["id"]) for row in rows] == rows
    assert lively_index.chat_row("nothing") is None
    for row in rows:
        with chats_of(lively_project).as_left(row["id"]) as chat:
            assert row.items() >= as_listed(chat).model_dump().items()
            assert row["active_manifest_id"] == chat.head()
            assert row["manifests"] == len(chat.reachable())
    assert (rows[2]["title"], rows[2]["active_branch"]) == ("First", "idea")


def test_calls_are_those_of_commits_and_the_pending_ones(
    lively_index: Index, c1: ChatStore
) -> None:
    calls = lively_index.calls("c1")
    done = [finished_call(c1.manifest(oid)) for oid in c1.reachable()]
    wanted = [*filter(None, done), *map(waiting_call, c1.calls())]

    assert sorted(calls, key=lambda call: call.id) == sorted(wanted, key=lambda call: call.id)
    assert calls == sorted(calls, key=lambda one: (one.started_at, one.id), reverse=True)
    assert [lively_index.call("c1", call.id) for call in calls] == calls
    assert lively_index.call("c1", "nothing") is None
    assert lively_index.call("c2", calls[0].id) is None
    assert {"text": "y" * 40_000} in [call.result for call in calls]


def test_approvals_are_listed_by_state_and_chat(lively_index: Index, c1: ChatStore) -> None:
    rows = lively_index.approvals()

    assert {row["execution_id"] for row in rows} == {one.execution_id for one in c1.approvals()}
    for row in rows:
        approval = c1.approval(row["execution_id"])
        assert approval is not None
        for name in ("role", "branch", "base", "superseded_by", "decided_by", "state"):
            assert row[name] == getattr(approval, name)
    (waiting,) = lively_index.approvals("pending")
    assert waiting["args"] == {"command": "echo hi"}
    assert waiting["reasons"] == ["the toolset asks"]
    assert lively_index.approvals("pending", chat_id="c1") == [waiting]
    assert (lively_index.approvals(chat_id="c1"), lively_index.approvals(chat_id="c2")) == (
        rows,
        [],
    )


def test_files_of_every_manifest_are_those_of_its_tree(lively_index: Index, c1: ChatStore) -> None:
    for oid in c1.reachable():
        files = c1.files(oid)
        blobs = lively_index.blobs(c1.id, {one.oid for one in files.values()})
        assert {path: blobs[one.oid].sha256 for path, one in files.items()} == {
            path: hashlib.sha256(c1.read_file(oid, path)).hexdigest() for path in files
        }


@pytest.mark.parametrize("updated_between", [True, False])
def test_a_deleted_chat_leaves_no_row_to_a_new_one_of_its_name(
    root: Path, *, updated_between: bool
) -> None:
    synced(root)
    shutil.rmtree(root / "data" / "chats" / "c1")
    if updated_between:
        assert not any("c1" in row for rows in synced(root).values() for row in rows)
    with chats_of(root).new("c1", title="Second"):
        pass

    after = synced(root)

    assert {row[0]: row[1] for row in after["chats"]}["c1"] == "Second"
    assert (after["tool_calls"], after["approvals"]) == ([], [])
