"""The note of the call that runs: one file, whole or none, whatever happens while it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from covalt_git.workspaces import running_call
from covalt_git.workspaces.chat import CALLS, finished_call, write_stored
from covalt_git.workspaces.writing import writing
from tests.workspaces.stores import (
    call_record,
    git,
    open_chats,
    pending_call,
    scratch,
    upload,
)

if TYPE_CHECKING:
    from covalt_git.workspaces.chat import ChatStore


@given(st.data())
def test_a_torn_note_is_none(data: st.DataObject) -> None:
    with scratch() as folder, open_chats(folder).new("c1") as chat:
        texts = st.text("ab", min_size=1, max_size=30)
        old = pending_call(chat, args={"text": data.draw(texts)})
        new = pending_call(chat, args={"text": data.draw(texts)})
        file = chat.store.path / running_call.NAME
        contents = []
        for call in (old, new):
            running_call.put(chat.store.path, call, durable=False)
            contents.append(file.read_bytes())
        before, after = contents
        at = data.draw(st.integers(0, len(after)))
        file.write_bytes(data.draw(st.sampled_from((after[:at], after[:at] + before[at:]))))

        assert running_call.read(chat.store.path) in (None, old, new)
        with writing(chat):
            assert chat.calls() == []


def test_a_note_that_a_power_cut_brings_back_is_known_by_its_commit(chat: ChatStore) -> None:
    call = pending_call(chat, base=upload(chat, "a", b"1") and chat.head())
    file = chat.store.path / running_call.NAME
    with writing(chat) as writer:
        writer.put_call(call)
        noted = file.read_bytes()
        manifest = writer.finish_call(call, call_record(), snapshot=writer.scan())
    file.write_bytes(noted)
    with writing(chat):
        pass

    assert chat.calls() == []
    assert chat.head() == manifest


def test_a_waiting_call_that_runs_is_one_call(chat: ChatStore) -> None:
    waits = pending_call(
        chat, status="pending", execution_id="01a20000-0000-7000-8000-000000000000"
    )
    runs = waits.model_copy(update={"status": "running"})
    with writing(chat) as writer:
        writer.put_call(waits)
        writer.put_call(runs)
        running = chat.calls()
        writer.finish_call(runs, call_record(), snapshot=writer.scan())

    assert running == [runs]
    assert chat.calls() == []
    assert git(chat.store.path, "for-each-ref", CALLS) == ""


def test_a_running_call_of_an_older_store_was_interrupted(chat: ChatStore) -> None:
    call = pending_call(chat, base=upload(chat, "a", b"1") and chat.head())
    note = write_stored(chat.store, call, "call: it runs")
    assert chat.store.swap_ref(CALLS + call.id, None, note)
    with writing(chat):
        pass
    recorded = finished_call(chat.manifest(str(chat.head())))

    assert recorded is not None
    assert (recorded.id, recorded.status) == (call.id, "error")
    assert str(recorded.error).startswith("interrupted")
    assert chat.calls() == []
