"""What the index answers about chats is what their stores say."""

from __future__ import annotations

import hashlib
import shutil
from typing import TYPE_CHECKING

import pytest

from covalt_git.errors import UnknownNameError
from covalt_git.workspaces.chats import finished_call, waiting_call
from tests.index.rows import chats_of, open_index, synced

if TYPE_CHECKING:
    from pathlib import Path


def test_chats_are_listed_newest_first(root: Path) -> None:
    with open_index(root) as index:
        index.sync()
        rows = index.chat_rows()

    assert [row["id"] for row in rows] == ["c2", "empty", "c1"]
    by_id = {row["id"]: row for row in rows}
    assert by_id["c1"]["title"] == "First"
    assert by_id["c1"]["active_branch"] == "idea"
    assert by_id["empty"]["active_manifest_id"] is None
    assert by_id["empty"]["manifests"] == 0
    with chats_of(root).as_left("c1") as chat:
        assert by_id["c1"]["active_manifest_id"] == chat.head()
        assert by_id["c1"]["manifests"] == len(chat.reachable())


def test_calls_are_those_of_commits_and_of_refs(root: Path) -> None:
    with open_index(root) as index, chats_of(root).as_left("c1") as chat:
        index.sync()
        calls = index.calls("c1")

        done = [finished_call(chat.manifest(oid)) for oid in chat.reachable()]
        waiting = [waiting_call(call) for call in chat.calls()]
        assert sorted(calls, key=lambda call: call.id) == sorted(
            [*filter(None, done), *waiting], key=lambda call: call.id
        )
        for call in calls:
            assert index.call("c1", call.id) == call
        assert index.call("c1", "nothing") is None
        assert index.call("c2", calls[0].id) is None


def test_one_chat_is_asked_for_by_its_id(root: Path) -> None:
    with open_index(root) as index:
        index.sync()
        rows = index.chat_rows()

        assert [index.chat_row(row["id"]) for row in rows] == rows
        assert index.chat_row("nothing") is None
        assert index.chat_rows(2) == rows[:2]
        for row in rows:
            with chats_of(root).as_left(row["id"]) as chat:
                assert row.items() >= chat.about().model_dump().items()


@pytest.mark.parametrize("size", [1, 2, 100])
def test_calls_are_listed_newest_first_page_by_page(root: Path, size: int) -> None:
    with open_index(root) as index:
        index.sync()
        whole = index.calls("c1")
        found = index.calls("c1", limit=size)
        while page := index.calls("c1", limit=size, before=found[-1].id):
            found += page

        assert found == whole
        assert whole == sorted(whole, key=lambda one: (one.started_at, one.id), reverse=True)
        assert len(whole) == 7
        with pytest.raises(UnknownNameError, match="no call 'nothing'"):
            index.calls("c1", before="nothing")


def test_a_large_result_is_whole_in_the_index(root: Path) -> None:
    with open_index(root) as index:
        index.sync()
        results = [call.result for call in index.calls("c1")]

    assert {"text": "y" * 40_000} in results


def test_approvals_are_listed_by_state(root: Path) -> None:
    with open_index(root) as index, chats_of(root).as_left("c1") as chat:
        index.sync()

        (waiting,) = index.approvals("pending")
        assert waiting["args"] == {"command": "echo hi"}
        assert waiting["reasons"] == ["the toolset asks"]
        assert {row["execution_id"] for row in index.approvals()} == {
            one.execution_id for one in chat.approvals()
        }
        assert index.approvals(chat_id="c1") == index.approvals()
        assert index.approvals(chat_id="c2") == []
        assert index.approvals("pending", chat_id="c1") == [waiting]
        for row in index.approvals():
            approval = chat.approval(row["execution_id"])
            assert approval is not None
            for name in ("role", "branch", "base", "superseded_by", "decided_by", "state"):
                assert row[name] == getattr(approval, name)


def test_files_of_every_manifest_are_those_of_its_tree(root: Path) -> None:
    with open_index(root) as index, chats_of(root).as_left("c1") as chat:
        index.sync()
        for oid in chat.reachable():
            files = chat.files(oid)
            blobs = index.blobs(chat.id, {one.oid for one in files.values()})
            assert {path: blobs[one.oid].sha256 for path, one in files.items()} == {
                path: hashlib.sha256(chat.read_file(oid, path)).hexdigest() for path in files
            }


def test_a_chat_that_is_gone_leaves_no_row(root: Path) -> None:
    synced(root)
    shutil.rmtree(root / "data" / "chats" / "c1")

    after = synced(root)

    assert [row[0] for row in after["chats"]] == ["c2", "empty"]
    assert not any("c1" in row for rows in after.values() for row in rows)


def test_a_chat_of_the_same_name_is_another_chat(root: Path) -> None:
    synced(root)
    shutil.rmtree(root / "data" / "chats" / "c1")
    with chats_of(root).new("c1", title="Second"):
        pass

    after = synced(root)

    assert {row[0]: row[1] for row in after["chats"]}["c1"] == "Second"
    assert after["tool_calls"] == []
    assert after["approvals"] == []


def test_a_copied_chat_has_rows_of_its_own(root: Path) -> None:
    shutil.copytree(root / "data" / "chats" / "c1", root / "data" / "chats" / "copy", symlinks=True)

    rows = synced(root)

    manifests = [row for row in rows["workspace_manifests"] if row[1] in {"c1", "copy"}]
    assert len({row[0] for row in manifests}) * 2 == len(manifests)


def test_counts_name_every_table(root: Path) -> None:
    rows = synced(root)

    with open_index(root) as index:
        counted = rows.keys() - {"tool_search", "tool_vocabulary"}
        assert index.counts() == {name: len(rows[name]) for name in counted}
