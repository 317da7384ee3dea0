"""``--log-format json``: one JSON object a line on the error stream."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from covalt_git.project import Project
from tests import command
from tests.api_client import make_project


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = make_project(tmp_path_factory.mktemp("log") / "project")
    (root / "toolsets/demo/tools").mkdir(parents=True)
    (root / "toolsets/demo/toolset.yaml").write_text(
        'id: demo\nname: Demo\nversion: "1"\ntools: [{id: say, entrypoint: "tools.it:say"}]\n'
    )
    (root / "toolsets/demo/tools/it.py").write_text(
        "from covalt_toolset import get_context\n\n\n"
        "def say() -> None:\n"
        "    context = get_context()\n"
        "    context.progress(1, 2, 'half\\nway')\n"
        "    for level in ('debug', 'info', 'warning', 'error'):\n"
        "        context.log(f'so {level}', level)\n"
        "    context.progress(2, 2)\n"
    )
    Project.open(root).chats.new("c1").store.close()
    return root


def run(root: Path, *args: str) -> tuple[int, str, list[dict[str, Any]]]:
    done = command.run("--log-format", "json", *args, cwd=root)
    return done.returncode, done.stdout, [json.loads(line) for line in done.stderr.splitlines()]


def test_a_call_is_one_line_without_its_arguments(root: Path) -> None:
    args = '{"path": "a.txt", "content": "a-secret"}'
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


@pytest.mark.parametrize(
    ("args", "code", "error"),
    [
        ("call c1 app-builder:nothing", 1, "unknown_tool"),
        ("call c1 app-builder:nothing --json", 1, "unknown_tool"),
        ("call --nothing", 2, "usage"),
    ],
)
def test_an_error_is_a_line_with_its_code(root: Path, args: str, code: int, error: str) -> None:
    ended, out, lines = run(root, *args.split())

    assert (ended, out) == (code, "")
    assert (lines[-1]["level"], lines[-1]["error"]) == ("error", error)
    assert "nothing" in lines[-1]["message"]


def test_each_event_of_a_call_is_a_line_with_its_id(root: Path) -> None:
    _, _, (*events, ended) = run(root, "call", "c1", "demo:say", "--follow")

    assert {one["call_id"] for one in events} == {ended["call_id"]}
    assert [(one["event"], one["level"], one["message"]) for one in events] == [
        ("ToolCallProgress", "info", "half\nway"),
        ("ToolCallLog", "debug", "so debug"),
        ("ToolCallLog", "info", "so info"),
        ("ToolCallLog", "warning", "so warning"),
        ("ToolCallLog", "error", "so error"),
        ("ToolCallProgress", "info", ""),
    ]
    assert [(one["done"], one["total"]) for one in (events[0], events[-1])] == [(1, 2), (2, 2)]
    assert len(run(root, "call", "c1", "demo:say")[2]) == 1


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
