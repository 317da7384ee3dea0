"""The main job of the README on the command line, from the wheel."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tests.journeys.terminal import Terminal

pytestmark = pytest.mark.stress  # it installs the wheel with all that it needs

TOOL_CALL_COLUMNS = [
    *("id", "chat_id", "message_id", "tool_id", "args", "result", "render_plan", "status"),
    *("error", "started_at", "finished_at", "pre_manifest_id", "post_manifest_id"),
]


def test_a_person_edits_calls_branches_and_rebuilds(tmp_path: Path, wheel_scripts: Path) -> None:
    start = tmp_path / "start"
    start.mkdir()
    terminal = Terminal(start, wheel_scripts)

    terminal.covalt("init", "demo")
    here = terminal.at(start / "demo")
    assert {"covalt.yaml", "toolsets", ".gitignore", ".git"} <= {
        path.name for path in here.folder.iterdir()
    }
    assert here.covalt("validate") == "3 toolsets, 15 tools: no problems\n"
    groups = here.json("tool", "list")["groups"]
    tools = {tool["tool_id"] for group in groups for tool in group["tools"]}
    assert {"app-builder:write_file", "data-lab:summarize"} <= tools

    here.covalt("chat", "new", "--id", "c1")
    call = here.json(
        *("call", "c1", "app-builder:write_file"),
        '{"path": "index.html", "content": "<h1>hi</h1>"}',
    )
    assert call.keys() >= {*TOOL_CALL_COLUMNS, "sandbox", "output", "repeated", "notes"}
    assert call["result"] == {"written": "index.html", "size": 11}
    assert call["status"] == "success"
    assert call["pre_manifest_id"] is None
    assert here.covalt("chat", "upload", "c1", "toolsets/data-lab/assets/weather.csv")
    summary = here.json("call", "c1", "data-lab:summarize", "--arg", "path=weather.csv")
    assert summary["result"]["rows"] == 1461
    assert summary["render_plan"]["renderer"] == "html"
    assert summary["render_plan"]["config"]["artifact"] == "toolset:artifacts/chart.html"

    log = here.json("chat", "log", "c1")["manifests"]
    assert [entry["source"] for entry in log] == ["tool_run", "user_upload", "tool_run"]
    here.covalt("chat", "branch", "c1", "idea", "--from", call["post_manifest_id"])
    here.covalt("chat", "checkout", "c1", "idea")
    workspace = here.folder / "data/chats/c1/workspace"
    assert sorted(path.name for path in workspace.iterdir()) == ["index.html"]
    (workspace / "index.html").write_text("<h1>idea</h1>", encoding="utf-8")
    here.covalt("chat", "checkout", "c1", "main")
    assert (workspace / "index.html").read_text(encoding="utf-8") == "<h1>hi</h1>"
    patch = here.covalt("chat", "diff", "c1", "main", "idea")
    assert "-<h1>hi</h1>" in patch
    assert "+<h1>idea</h1>" in patch

    before = _every_row(here.folder / "data/index.db")
    (here.folder / "data/index.db").unlink()
    here.covalt("index", "rebuild")
    assert _every_row(here.folder / "data/index.db") == before
    assert len(before["tool_calls"]) == 2

    assert here.git("-C", "data/chats/c1/store.git", "fsck", "--strict") == ""
    here.git("clone", "--quiet", "data/chats/c1/store.git", "copy")
    assert sorted(path.name for path in (here.folder / "copy").iterdir()) == [
        ".git",
        "index.html",
        "weather.csv",
    ]
    assert here.git("status", "--porcelain", "--ignored=no", "data") == ""
    assert "covalt-git" in here.git("covalt", "--version")


def _every_row(index: Path) -> dict[str, list[tuple[object, ...]]]:
    with sqlite3.connect(index) as connection:
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        rows = {
            name: connection.execute(f"SELECT * FROM {name}").fetchall()
            for (name,) in tables.fetchall()
        }
    connection.close()
    return rows
