"""The specification's own examples, taken from its text, load and behave as it prints them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.journeys.terminal import Terminal

SPECIFICATION = Path(__file__).parents[3] / "shared" / "seeds" / "toolset-system-specification.md"
pytestmark = pytest.mark.skipif(
    not SPECIFICATION.exists(), reason="the specification is not next to this checkout"
)


def example(section: str, language: str, number: int = 0) -> str:
    """Return a code block of a section, by its heading's number."""
    text = SPECIFICATION.read_text(encoding="utf-8")
    body = re.split(rf"(?m)^#+ {re.escape(section)}[. ]", text)[1]
    body = re.split(r"(?m)^#{1,3} \d", body)[0]
    found: list[str] = re.findall(rf"```{language}\n(.*?)```", body, re.DOTALL)
    return found[number]


def write(root: Path, files: dict[str, str]) -> None:
    for path, content in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")


@pytest.fixture
def app_builder(project: Terminal) -> Terminal:
    """A project whose app-builder is section 10, letter by letter."""
    folder = project.folder / "toolsets/app-builder"
    for file in sorted(folder.rglob("*"), reverse=True):
        file.unlink() if file.is_file() else file.rmdir()
    write(
        folder,
        {
            "toolset.yaml": example("10", "yaml"),
            "tools/files.py": example("10", "python", 0),
            "tools/shell.py": example("10", "python", 1),
        },
    )
    project.covalt("chat", "new", "--id", "c1")
    return project


@pytest.mark.requirement("covalt-10.valid")
def test_section_10_validates_and_only_its_old_renderers_warn(app_builder: Terminal) -> None:
    problems = app_builder.json("validate")["problems"]

    assert [(one["code"], one["severity"]) for one in problems] == [("CG206", "warning")] * 3


@pytest.mark.requirement(
    "covalt-3.2.renderer",
    "covalt-5.2.args_name",
    "covalt-10.functions",
    "covalt-10.files",
    "covalt-10.command",
    "covalt-10.input_schema",
)
def test_section_10_writes_reads_and_runs(app_builder: Terminal) -> None:
    written = app_builder.json(
        "call", "c1", "app-builder:write_file", '{"path": "a/b.py", "content": "print(1)"}'
    )
    read = app_builder.json("call", "c1", "app-builder:read_file", '{"path": "a/b.py"}')
    ran = app_builder.json(
        "call",
        "c1",
        "app-builder:run_command",
        '{"command": "cat a/b.py"}',
        "--no-terminal",
        "tested",
    )

    assert written["result"] == {"written": "a/b.py", "size": 8}
    assert written["render_plan"] == {
        "renderer": "code",
        "config": {"file": "workspace:a/b.py", "language": "auto", "editable": True},
        "error": None,
        "artifact": None,
    }
    assert read["result"] == {"path": "a/b.py", "content": "print(1)", "size": 8}
    assert ran["result"] == {"command": "cat a/b.py", "output": "print(1)", "exit_code": 0}
    assert ran["render_plan"]["config"] == {"content": "print(1)", "language": "shell"}


@pytest.mark.requirement("covalt-10.confirmation")
def test_section_10_needs_approval_to_run_a_command(app_builder: Terminal) -> None:
    command = ("call", "c1", "app-builder:run_command", '{"command": "touch x"}')

    assert app_builder.json(*command, code=1)["status"] == "pending"


@pytest.fixture
def my_toolset(project: Terminal) -> Terminal:
    """A project with section 3.2's toolset, around the functions of section 4.2."""
    functions = {
        "analyze": "def run(filename: str) -> dict:\n"
        "    return {'summary': 'Processed 100 rows', 'stats': {'rows': 100}}\n",
        "transform": "def run(workspace: Path, output: str) -> dict:\n"
        "    (workspace / output).write_text('done')\n    return {'output': output}\n",
    }
    write(
        project.folder / "toolsets/my-toolset",
        {
            "toolset.yaml": example("3.2", "yaml"),
            "artifacts/results.html": "<html><head></head><body></body></html>",
            **{
                f"tools/{name}.py": f"from pathlib import Path\n\n\n{body}"
                for name, body in functions.items()
            },
        },
    )
    project.covalt("chat", "new", "--id", "c1")
    return project


def test_section_3_2_loads_with_its_server_declared_and_not_started(my_toolset: Terminal) -> None:
    said: Any = my_toolset.json("validate")
    shown = my_toolset.json("toolset", "show", "my-toolset")

    assert [one for one in said["problems"] if one["severity"] == "error"] == []
    assert shown["manifest"]["mcp_servers"] == [
        {
            "id": "my-mcp-server",
            "command": "npx",
            "args": ["-y", "my-mcp-package"],
            "env": {"API_KEY": "${MY_API_KEY}"},
        }
    ]


@pytest.mark.requirement("covalt-4.3.9", "covalt-5.2.return", "covalt-5.3.plan")
def test_section_5_3_gives_the_printed_plan(my_toolset: Terminal) -> None:
    call = my_toolset.json("call", "c1", "my-toolset:analyze_data", '{"filename": "x.csv"}')

    plan = call["render_plan"]
    assert plan["renderer"] == "html"
    assert plan["config"] == {
        "artifact": "toolset:artifacts/results.html",
        "data": {"summary": "Processed 100 rows", "stats": {"rows": 100}},
    }
    assert plan["artifact"]["size"] == len("<html><head></head><body></body></html>")


def test_section_3_2_shows_a_file_of_the_workspace(my_toolset: Terminal) -> None:
    call = my_toolset.json(
        "call", "c1", "my-toolset:transform_file", '{"output": "o/out.txt"}', code=1
    )
    good = my_toolset.json("call", "c1", "my-toolset:transform_file", '{"output": "out.txt"}')

    assert call["error"].startswith("tool_raised: FileNotFoundError")
    assert good["render_plan"]["config"]["file"] == "workspace:out.txt"
