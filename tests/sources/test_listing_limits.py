"""Definitions of a server that no lock can have: they are left out with a reason, and hide no other definition."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from covalt_git.calls.servers.mcp_calls import list_tools
from covalt_git.connections.pool import CONNECTIONS
from covalt_git.errors import CovaltError
from covalt_git.manifests import state_files
from covalt_git.sources.refresh import find_source, refresh
from tests.mcp_client import make_project
from tests.taking_servers import add_skills_server


@pytest.fixture
def served(tmp_path: Path) -> Path:
    folder = tmp_path / "served"
    folder.mkdir()
    return folder


@pytest.fixture
def root(tmp_path: Path, served: Path) -> Iterator[Path]:
    root = make_project(tmp_path / "project")
    add_skills_server(root, served)
    yield root
    CONNECTIONS.close()


def refreshed(root: Path) -> tuple[set[str], list[str]]:
    """List the server again; return the names of what it lists at the server, and the notes."""
    notes: list[str] = []
    source = find_source(root, "near", "near")
    lock = refresh(root, source, partial(list_tools, root=root, report=notes.append)).source.lock
    assert lock is not None
    return {entry.short_name for entry in lock.offers.values()} | {*lock.tools}, notes


def skill(name: str, **front: Any) -> dict[str, Any]:
    uri = f"skill://{name}/SKILL.md"
    files = [{"uri": uri, "digest": f"sha256:{'0' * 64}", "size": 1}]
    front = {"name": name, "description": "x", **front}
    return {"uri": uri, "frontmatter": front, "resources": files}


@pytest.mark.parametrize("levels", [59, 62, 400, 900])
def test_a_definition_of_many_levels_is_left_out_and_the_others_are_refreshed(
    root: Path, served: Path, levels: int
) -> None:
    deep: Any = {}
    for _ in range(levels - 1):
        deep = {"a": deep}
    (served / "entries.json").write_text(json.dumps([skill("pdf"), skill("deep", metadata=deep)]))
    schema = {"type": "object"}
    tools: list[Any] = [{"name": "plain", "inputSchema": schema}]
    tools.append({"name": "deep-tool", "inputSchema": {**schema, "default": deep["a"]}})
    resources: list[dict[str, Any]] = [
        {"uri": f"x:{name}", "name": name, "_meta": {}} for name in ("text", "deep-text")
    ]
    resources[1]["icons"] = [{"src": "x:i", "more": deep["a"]}]
    (served / "tools.json").write_text(json.dumps(tools))
    (served / "resources.json").write_text(json.dumps(resources))
    names, notes = refreshed(root)
    assert "pdf" in names
    assert {"plain", "text"} <= names
    left_out = {"deep-tool", "deep-text", "deep"} - names
    assert ("deep-tool" in left_out) == (levels > 59)
    assert "deep" not in names
    assert all(any(name in note for note in notes) for name in left_out), notes
    assert "pdf" in refreshed(root)[0]  # the lock is readable


def test_there_are_few_notes_and_each_is_short(root: Path, served: Path) -> None:
    malformed = [{"uri": f"skill://{'b' * 1_000}/SKILL.md"} for _ in range(40)]
    (served / "entries.json").write_text(json.dumps([*malformed, skill("pdf")]))
    names, notes = refreshed(root)
    assert "pdf" in names
    assert notes[-1] == "note: 20 more reasons like these"
    assert len(notes) == 21
    assert max(map(len, notes)) < 600


def test_a_lock_that_could_not_be_read_is_not_written(
    root: Path, served: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refreshed(root)
    lock = state_files.lock_file(root, "near")
    before = lock.read_bytes()
    (served / "entries.json").write_text(json.dumps([skill("pdf", note="x" * 2_000)]))
    monkeypatch.setattr(state_files, "_MAX_SERVER_LOCK_BYTES", 2_000)
    with pytest.raises(CovaltError, match=r"near/near .* of the kind 'skill'") as raised:
        refreshed(root)
    assert raised.value.code == "lock_too_large"
    assert lock.read_bytes() == before
    # A file of few bytes can have too many values.
    monkeypatch.setattr(state_files, "_MAX_LOCK_BYTES", 20_000)
    monkeypatch.setattr(state_files, "_MAX_LOCK_NODES", 20)
    with pytest.raises(CovaltError, match="near/near"):
        refreshed(root)
    assert lock.read_bytes() == before
