"""The main job of the README on the command line, from the wheel."""

from pathlib import Path

import pytest

from tests.journeys.terminal import Terminal


@pytest.mark.rest
def test_a_person_calls_tools_and_clones_the_chat(tmp_path: Path, wheel_scripts: Path) -> None:
    start = tmp_path / "start"
    start.mkdir()
    terminal = Terminal(start, wheel_scripts)

    terminal.covalt("init", "demo")
    here = terminal.at(start / "demo")
    assert here.covalt("validate") == "3 toolsets, 15 tools: no problems\n"

    here.covalt("chat", "new", "--id", "c1")
    call = here.json(
        *("call", "c1", "app-builder:write_file"),
        '{"path": "index.html", "content": "<h1>hi</h1>"}',
    )
    assert call["result"] == {"written": "index.html", "size": 11}
    assert here.covalt("chat", "upload", "c1", "toolsets/data-lab/assets/weather.csv")
    summary = here.json("call", "c1", "data-lab:summarize", "--arg", "path=weather.csv")
    assert summary["result"]["rows"] == 1461
    assert summary["render_plan"]["renderer"] == "html"
    assert summary["render_plan"]["config"]["artifact"] == "toolset:artifacts/chart.html"

    assert here.git("-C", "data/chats/c1/store.git", "fsck", "--strict") == ""
    here.git("clone", "--quiet", "data/chats/c1/store.git", "copy")
    assert sorted(path.name for path in (here.folder / "copy").iterdir()) == [
        ".git",
        "index.html",
        "weather.csv",
    ]
    assert "covalt-git" in here.git("covalt", "--version")
