"""Calls of Python tools: what is imported once, what a result may be, and what is kept out of it."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from covalt_git.calls.background import RUNNING, Follower, NotRunningError, Started
from covalt_git.calls.engine import Request
from covalt_git.runtime import sandbox
from covalt_git.runtime.environments import CannotInstallError
from covalt_git.runtime.jobs import Log
from covalt_git.toolsets.toolset import read_toolset
from covalt_git.workspaces.locking import CancelledError

if TYPE_CHECKING:
    from covalt_git.calls.background import CallEvent
    from covalt_git.calls.outcomes import CallOutcome
    from tests.calls.conftest import World

CANARY = "sk-canary/+7f"

MANIFEST = """
id: own
name: Own
version: "1"
secrets: [WEATHER_KEY, OTHER_KEY]
tools:
  - {id: counted, entrypoint: tools.it:counted}
  - {id: picture, entrypoint: tools.it:picture}
  - {id: wrong, entrypoint: tools.it:wrong}
  - {id: declared, entrypoint: tools.it:declared, output_schema: {type: object, required: [size]}}
  - {id: leak, entrypoint: tools.it:leak}
  - {id: wait, entrypoint: tools.it:wait}
"""
PYTHON = """
import time
from pathlib import Path

from covalt_toolset import File, get_context

IMPORTED = time.monotonic_ns()
CALLS = []


def counted() -> dict[str, int]:
    CALLS.append(1)
    return {"imported": IMPORTED, "calls": len(CALLS)}


def picture(workspace: Path) -> dict:
    (workspace / "report.pdf").write_bytes(b"%PDF")
    return {"picture": b"\\x89PNG", "report": File("report.pdf")}


def wrong(workspace: Path) -> list[int]:
    (workspace / "kept.txt").write_text("kept")
    return ["one"]


def declared(value: dict) -> dict:
    return value


def leak(fail: bool) -> dict:
    context = get_context()
    key = context.secrets["WEATHER_KEY"]
    context.log(f"key {key}")
    context.progress(1, 2, f"with {key}")
    print("printed", key, key.encode().hex())
    if fail:
        raise ValueError(key)
    return {"key": key, "names": sorted(context.secrets), key: 1}


def wait(workspace: Path) -> None:
    (workspace / "begun.txt").write_text("begun")
    while not get_context().cancelled:
        time.sleep(0.01)
    (workspace / "tidy.txt").write_text("tidied up")
"""


@pytest.fixture
def own(world: World) -> World:
    world.write("own/toolset.yaml", MANIFEST)
    world.write("own/tools/it.py", PYTHON)
    return world


def call(world: World, tool: str, follower: Follower | None = None, /, **args: Any) -> CallOutcome:
    project = world.project()
    with project.chats.open("c1") as chat:
        return project.engine(None, follower).call(chat, Request(f"own:{tool}", args))


def test_the_project_s_own_modules_are_imported_once_and_no_call_sees_another(own: World) -> None:
    found = [call(own, "counted").call.result for _ in range(3)]

    assert len({one["imported"] for one in found}) == 1
    assert [one["calls"] for one in found] == [1, 1, 1]


def test_a_changed_file_is_imported_anew(own: World) -> None:
    first = call(own, "counted").call.result
    own.write("own/tools/it.py", PYTHON + "CALLS.append(0)\n")

    assert call(own, "counted").call.result["calls"] == 2
    assert call(own, "counted").call.result["imported"] != first["imported"]


@pytest.mark.skipif(sandbox.level() == "process", reason="this machine has no walls that hold")
def test_somebody_else_s_modules_are_imported_for_each_call(own: World) -> None:
    own.write("state/own.yaml", "source_type: zip\nenabled: true\n")

    found = [call(own, "counted").call.result["imported"] for _ in range(2)]

    assert found[0] != found[1]


def test_bytes_and_files_are_results_by_reference(own: World) -> None:
    outcome = call(own, "picture")

    name = outcome.call.result["picture"]["file"]
    assert outcome.call.result["report"] == {
        "file": "report.pdf",
        "size": 4,
        "media_type": "application/pdf",
    }
    assert sorted(change.path for change in outcome.changes) == [name, "report.pdf"]
    assert (own.workspace / name).read_bytes() == b"\x89PNG"


def test_a_result_that_is_not_what_was_promised_is_an_error_and_files_are_kept(own: World) -> None:
    outcome = call(own, "wrong")

    assert outcome.call.error == "bad_result: $[0]: must be an integer, not a string"
    assert outcome.call.result is None
    assert own.files()["kept.txt"] == "kept"


def test_a_declared_schema_judges_in_the_annotation_s_place(own: World) -> None:
    assert call(own, "declared", value={"size": 1}).call.status == "success"
    assert call(own, "declared", value={}).call.error == "bad_result: $: 'size' is missing"


@pytest.fixture
def granted(own: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world whose toolset was granted one of its two secrets."""
    monkeypatch.setenv("WEATHER_KEY", CANARY)
    monkeypatch.setenv("OTHER_KEY", "sk-other-1")
    digest = read_toolset(own.root, "own").digest
    own.write(
        "state/own.yaml",
        f"""grants:
  secret-WEATHER_KEY:
    kind: secret
    name: WEATHER_KEY
    digest: {digest}
    granted_at: "2026-11-20T12:00:00.000Z"
    granted_by: local
""",
    )
    return own


@pytest.mark.parametrize("fail", [False, True])
def test_a_granted_secret_is_given_and_stands_nowhere_afterwards(
    granted: World,
    fail: bool,  # noqa: FBT001 - a column of the table
) -> None:
    told: list[CallEvent] = []

    outcome = call(granted, "leak", Follower(told.append), fail=fail)

    (manifest,) = granted.log()
    shown = f"{outcome}{manifest}{told}{granted.git('log', '-p', '--all')}{granted.index_rows()}"
    assert Log("info", "key ***") in told
    assert outcome.output == "info: key ***\nprinted *** ***\n"
    assert CANARY not in shown
    assert CANARY.encode().hex() not in shown
    if fail:
        assert outcome.call.error == "tool_raised: ValueError: ***"
    else:
        assert outcome.call.result == {"key": "***", "names": ["WEATHER_KEY"], "***": 1}


def test_a_secret_granted_for_other_files_is_not_given(granted: World) -> None:
    granted.write("own/tools/it.py", PYTHON + "# changed\n")

    outcome = call(granted, "leak", fail=False)

    assert outcome.error is not None
    assert "the tool has no secret 'WEATHER_KEY', it was given none" in outcome.error.message


def test_a_cancelled_call_is_recorded_with_what_it_wrote(own: World) -> None:
    told: list[CallEvent] = []
    follower = Follower(told.append)

    def cancel() -> None:
        assert own.until((own.workspace / "begun.txt").exists)
        (started,) = told
        assert isinstance(started, Started)
        RUNNING.cancel(started.call_id)

    thread = threading.Thread(target=cancel)
    thread.start()
    outcome = call(own, "wait", follower)
    thread.join()

    assert outcome.call.error == "cancelled: a person stopped it"
    assert own.files() == {"begun.txt": "begun", "tidy.txt": "tidied up"}
    with pytest.raises(NotRunningError):
        RUNNING.cancel(outcome.call.id)


def test_a_call_that_is_cancelled_while_it_waits_is_never_recorded(own: World) -> None:
    follower = Follower()
    follower.cancel.set()

    with pytest.raises(CancelledError):
        call(own, "counted", follower)

    assert own.log() == []


def test_what_cannot_be_installed_stops_a_call_before_it_is_recorded(
    own: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(own.root / "cache"))
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("UV_NO_INDEX", "1")
    own.write("own/toolset.yaml", MANIFEST + 'python: {dependencies: ["nowhere-to-be-found"]}\n')

    with pytest.raises(CannotInstallError, match="nowhere-to-be-found"):
        call(own, "counted")

    assert own.log() == []


def test_an_approved_call_whose_needs_cannot_be_installed_is_recorded_as_failed(
    own: World,
) -> None:
    own.write(
        "own/toolset.yaml",
        MANIFEST + 'python: {dependencies: ["--evil"]}\ndefaults: {requires_confirmation: true}\n',
    )
    waiting = call(own, "counted")
    assert waiting.approval is not None

    outcome = own.approve(waiting.approval.execution_id)

    assert outcome.error is not None
    assert outcome.error.code == "cannot_install"
    assert own.codes() == ["cannot_install"]


def test_level_of_a_call_is_the_one_that_its_engine_was_given(own: World) -> None:
    project = own.project()
    with project.chats.open("c1") as chat:
        engine = replace(project.engine(), level="process")
        assert engine.call(chat, Request("own:counted", {})).call.status == "success"

    (manifest,) = own.log()
    assert manifest.record.call is not None
    assert manifest.record.call.sandbox == "process"
