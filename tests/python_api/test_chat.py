"""A chat in Python: its calls, files and branches."""

import pytest

from covalt_git import Chat, CovaltError
from covalt_git.names import new_id


def test_a_call_returns_its_value_and_its_commit(chat: Chat) -> None:
    args = {"path": "a.txt", "content": "1"}
    result = chat.call("app-builder:write_file", args, call_id=(key := new_id()))

    assert (result.status, result.files_changed) == ("success", ("a.txt",))
    assert result.value == {"size": 1, "written": "a.txt"}
    assert result.render_plan is not None
    assert chat.log()[0].id == result.commit
    assert chat.call("app-builder:write_file", args, call_id=key) == result
    assert len(chat.log()) == 1


def test_a_call_that_is_refused_raises(chat: Chat) -> None:
    with pytest.raises(CovaltError) as refused:
        chat.call("app-builder:write_file", {"path": 1})

    assert refused.value.code == "invalid_arguments"
    assert refused.value.problems


def test_files_are_edited_committed_and_restored(chat: Chat) -> None:
    assert chat.snapshot() is None
    (chat.workspace / "a.txt").write_text("one\n")
    first = chat.snapshot()
    assert first is not None
    (chat.workspace / "a.txt").write_text("two\n")

    assert [change.path for change in chat.diff()] == ["a.txt"]
    assert chat.upload("a.txt", b"other").path == "a_1.txt"
    assert (chat.read("a.txt"), chat.read("a.txt", first)) == (b"two\n", b"one\n")
    assert chat.restore(first, "a.txt") == chat.log()[0].id
    assert chat.read("a.txt") == b"one\n"
    assert [file.path for file in chat.files()] == ["a.txt", "a_1.txt"]
    with pytest.raises(CovaltError) as refused:
        chat.read("b.txt")
    assert refused.value.code == "unknown_file"
