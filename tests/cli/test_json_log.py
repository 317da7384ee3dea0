"""``--log-format json``: one JSON object a line on the error stream, whatever is said there."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from covalt_git.project import Project
from covalt_git.toolsets.new_project import create_project
from tests import command


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    create_project(made)
    Project.open(made).chats.new("c1")
    return made


def run(root: Path, *args: str) -> tuple[int, str, list[dict[str, Any]]]:
    done = command.run("-C", str(root), "--log-format", "json", *args)
    return done.returncode, done.stdout, [json.loads(line) for line in done.stderr.splitlines()]


def test_a_call_is_a_line_that_names_it_and_none_of_its_arguments(root: Path) -> None:
    args = '{"path": "a.txt", "content": "what-nobody-may-see"}'
    code, out, (line,) = run(root, "call", "c1", "app-builder:write_file", args, "--json")

    assert code == 0
    assert line.pop("time").endswith("Z")
    assert line.pop("seconds") > 0
    assert line.pop("call_id") == json.loads(out)["id"]
    assert line == {
        "level": "info",
        "logger": "covalt_git.calls.telemetry",
        "message": "app-builder:write_file success",
        "chat_id": "c1",
        "tool_id": "app-builder:write_file",
        "status": "success",
        "sandbox": line["sandbox"],
    }


@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_an_error_is_a_line_with_its_hint(root: Path, as_json: tuple[str, ...]) -> None:
    code, out, lines = run(root, "call", "c1", "app-builder:nothing", *as_json)
    last = lines[-1]

    assert (code, out) == (1, "")
    assert (last["level"], last["logger"], last["error"]) == (
        "error",
        "covalt_git.cli",
        "unknown_tool",
    )
    assert last["message"] == "no tool 'app-builder:nothing'"
    assert last["hint"]


def test_a_command_that_cannot_be_read_is_a_line(root: Path) -> None:
    code, _, (line,) = run(root, "call", "--nothing")

    assert code == 2
    assert (line["level"], line["error"]) == ("error", "usage")
    assert "--nothing" in line["message"]


def test_what_a_tool_tells_on_the_way_is_a_line_that_names_its_call(root: Path) -> None:
    folder = root / "toolsets" / "demo" / "tools"
    folder.mkdir(parents=True)
    folder.with_name("toolset.yaml").write_text(
        'id: demo\nname: Demo\nversion: "1"\ntools: [{id: tell, entrypoint: "tools.it:tell"}]\n'
    )
    (folder / "it.py").write_text(
        "from covalt_toolset import get_context\n\n\n"
        "def tell() -> None:\n"
        "    context = get_context()\n"
        "    context.progress(1, 2, 'half\\nway')\n"
        "    for level in ('debug', 'info', 'warning', 'error'):\n"
        "        context.log(f'so {level}', level)\n"
        "    context.progress(2, 2)\n"
    )
    _, _, (*told, ended) = run(root, "call", "c1", "demo:tell", "--follow")
    _, _, untold = run(root, "call", "c1", "demo:tell")

    assert {one["call_id"] for one in told} == {ended["call_id"]}
    assert [(one["event"], one["level"], one["message"]) for one in told] == [
        ("ToolCallProgress", "info", "half\nway"),
        ("ToolCallLog", "debug", "so debug"),
        ("ToolCallLog", "info", "so info"),
        ("ToolCallLog", "warning", "so warning"),
        ("ToolCallLog", "error", "so error"),
        ("ToolCallProgress", "info", ""),
    ]
    assert [(one["done"], one["total"]) for one in (told[0], told[-1])] == [(1, 2), (2, 2)]
    assert len(untold) == 1


def test_a_bug_is_a_line_with_its_traceback() -> None:
    program = (
        "from covalt_git.cli.terminal import json_log; import threading; json_log.install(); "
        "thread = threading.Thread(target=lambda: 1 // 0); thread.start(); thread.join(); {}['a']"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    lines = [json.loads(line) for line in done.stderr.splitlines()]

    assert [line["level"] for line in lines] == ["critical", "critical"]
    assert "ZeroDivisionError" in lines[0]["traceback"]
    assert "KeyError" in lines[1]["traceback"]


def test_a_server_speaks_in_lines_until_its_end(root: Path) -> None:
    options = ("-C", str(root), "--log-format", "json")
    with subprocess.Popen(
        [sys.executable, "-m", "covalt_git", *options, "serve", "--port", "0", "--verbose"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        assert server.stdout.readline().startswith("http://")
        server.send_signal(signal.SIGINT)
        _, err = server.communicate()
    lines = [json.loads(line) for line in err.splitlines()]

    assert [line["message"] for line in lines][-1] == "stopped"
    assert all(line["logger"] == "covalt_git.cli" for line in lines)


def test_the_format_may_come_from_the_environment(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COVALT_GIT_LOG_FORMAT", "json")
    done = command.run("-C", str(root), "call", "c1", "app-builder:list_files", "--json")

    assert json.loads(done.stderr)["status"] == "success"
