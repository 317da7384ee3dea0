"""The specification's own examples, taken from its text, load and behave as it prints them."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.operations_client import Operations

SPECIFICATION = Path(__file__).parents[3] / "shared" / "seeds" / "toolset-system-specification.md"
pytestmark = pytest.mark.skipif(
    not SPECIFICATION.exists(), reason="the specification is not next to this checkout"
)

# What section 4.2's functions return, for the tools of section 3.2.
ANALYZE = """\
def run(filename: str) -> dict:
    return {'summary': 'Processed 100 rows', 'stats': {'rows': 100}}
"""
TRANSFORM = """\
from pathlib import Path


def run(workspace: Path, output: str) -> dict:
    (workspace / output).write_text('done')
    return {'output': output}
"""
PAGE = "<html><head></head><body></body></html>"


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


@pytest.fixture(scope="module")
def operate(sample_project: Path, tmp_path_factory: pytest.TempPathFactory) -> Operations:
    """A project with section 10's app-builder and section 3.2's toolset, letter by letter, and a chat c1."""
    root = Path(shutil.copytree(sample_project, tmp_path_factory.mktemp("printed") / "project"))
    shutil.rmtree(root / "toolsets/app-builder")
    write(
        root / "toolsets",
        {
            "app-builder/toolset.yaml": example("10", "yaml"),
            "app-builder/tools/files.py": example("10", "python", 0),
            "app-builder/tools/shell.py": example("10", "python", 1),
            "my-toolset/toolset.yaml": example("3.2", "yaml"),
            "my-toolset/tools/analyze.py": ANALYZE,
            "my-toolset/tools/transform.py": TRANSFORM,
            "my-toolset/artifacts/results.html": PAGE,
        },
    )
    operate = Operations(root)
    operate("create_chat", chat_id="c1")
    return operate


@pytest.fixture(scope="module")
def call(operate: Operations) -> Callable[..., Any]:
    """A function that calls a tool in the chat."""

    def called(tool_id: str, **args: str) -> Any:
        return operate("call_tool", chat_id="c1", tool_id=tool_id, args=args)

    return called


@pytest.mark.requirement("covalt-10.valid")
def test_both_are_valid_and_only_old_renderers_warn(operate: Operations) -> None:
    problems = operate("validate")["problems"]

    assert [one for one in problems if one["severity"] == "error"] == []
    of_section_10 = [one["code"] for one in problems if "app-builder" in one["path"]]
    assert of_section_10 == ["CG206"] * 3


@pytest.mark.requirement(
    "covalt-3.2.renderer",
    "covalt-5.2.args_name",
    "covalt-10.functions",
    "covalt-10.files",
    "covalt-10.command",
    "covalt-10.confirmation",
    "covalt-10.input_schema",
)
def test_section_10_writes_reads_and_runs(operate: Operations, call: Callable[..., Any]) -> None:
    written = call("app-builder:write_file", path="a/b.py", content="print(1)")
    read = call("app-builder:read_file", path="a/b.py")
    waiting = call("app-builder:run_command", command="cat a/b.py")
    ran = operate("approve_call", execution_id=waiting["execution_id"])

    assert written["result"] == {"written": "a/b.py", "size": 8}
    assert written["render_plan"] == {
        "renderer": "code",
        "config": {"file": "workspace:a/b.py", "language": "auto", "editable": True},
        "error": None,
        "artifact": None,
    }
    assert read["result"] == {"path": "a/b.py", "content": "print(1)", "size": 8}
    assert waiting["status"] == "pending"
    assert ran["result"] == {"command": "cat a/b.py", "output": "print(1)", "exit_code": 0}
    assert ran["render_plan"]["config"] == {"content": "print(1)", "language": "shell"}


@pytest.mark.requirement("covalt-4.3.9", "covalt-5.2.return", "covalt-5.3.plan")
def test_section_5_3_gives_the_printed_plan(call: Callable[..., Any]) -> None:
    plan = call("my-toolset:analyze_data", filename="x.csv")["render_plan"]

    assert plan["renderer"] == "html"
    assert plan["config"] == {
        "artifact": "toolset:artifacts/results.html",
        "data": {"summary": "Processed 100 rows", "stats": {"rows": 100}},
    }
    assert plan["artifact"]["size"] == len(PAGE)


def test_section_3_2_shows_a_file_of_the_workspace(call: Callable[..., Any]) -> None:
    failed = call("my-toolset:transform_file", output="o/out.txt")
    good = call("my-toolset:transform_file", output="out.txt")

    assert failed["error"].startswith("tool_raised: FileNotFoundError")
    assert good["render_plan"]["config"]["file"] == "workspace:out.txt"
