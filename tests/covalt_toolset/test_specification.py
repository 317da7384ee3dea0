"""The tools of the specification, sections 4.2 and 10, as an author would copy them."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field

from covalt_toolset import (
    clear_context,
    describe,
    get_context,
    get_tool_metadata,
    invoke,
    set_context,
    to_json,
    tool,
)


def process(data: str) -> dict[str, int]:
    return {"rows": len(data.splitlines())}


@tool(
    name="Analyze Data",
    description="Analyze a data file and return statistics",
)
def analyze_data(filename: str) -> dict:  # type: ignore[type-arg]
    """
    Args:
        filename: File to analyze

    Returns:
        JSON-serializable dict. This becomes $return for renderer interpolation.
    """
    ctx = get_context()  # Access workspace, chat_id, toolset_id

    input_file = ctx.workspace / filename
    data = input_file.read_text()
    result = process(data)

    output_file = ctx.workspace / "output.json"
    output_file.write_text(json.dumps(result))

    return {
        "summary": "Processed 100 rows",
        "output_file": "output.json",
        "stats": {"rows": 100, "columns": 5},
    }


class TransformConfig(BaseModel):
    input: str = Field(description="Input file path")
    output: str = Field(description="Output file path")
    template: str = Field(description="Template to apply")


@tool(name="Transform File", description="Transform a file using a template")
def transform_file(config: TransformConfig) -> dict:  # type: ignore[type-arg]
    ctx = get_context()
    text = (ctx.workspace / config.input).read_text()
    (ctx.workspace / config.output).write_text(config.template.format(text))
    return {"output": config.output}


def write_file(workspace: Path, path: str, content: str) -> dict:  # type: ignore[type-arg]
    target = workspace / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(content)
    return {"written": path, "size": len(content)}


def read_file(workspace: Path, path: str) -> dict:  # type: ignore[type-arg]
    target = workspace / path
    content = target.read_text()
    return {"path": path, "content": content, "size": len(content)}


def run_command(workspace: Path, command: str) -> dict:  # type: ignore[type-arg]
    result = subprocess.run(
        command,
        shell=True,
        cwd=workspace,
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        "command": command,
        "output": result.stdout + result.stderr,
        "exit_code": result.returncode,
    }


STRING = {"type": "string"}


def _closed(properties: dict[str, Any], **more: object) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
        **more,
    }


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path) -> Iterator[Path]:
    set_context(workspace=tmp_path)
    yield tmp_path
    clear_context()


def test_analyze_data_is_described_by_its_mark_and_docstring() -> None:
    description = describe(analyze_data)

    assert description.name == "Analyze Data"
    assert description.description == "Analyze a data file and return statistics"
    assert description.input_schema == _closed(
        {"filename": {"type": "string", "description": "File to analyze"}}
    )
    assert description.output_schema == {"type": "object", "additionalProperties": True}


def test_analyze_data_reads_and_writes_the_workspace(workspace: Path) -> None:
    (workspace / "data.csv").write_text("a\nb\n", encoding="utf-8")

    result = to_json(invoke(analyze_data, {"filename": "data.csv"}))

    assert result["stats"] == {"rows": 100, "columns": 5}
    assert json.loads((workspace / "output.json").read_text()) == {"rows": 2}


def test_transform_file_receives_a_model(workspace: Path) -> None:
    (workspace / "in.txt").write_text("world", encoding="utf-8")
    config = {"input": "in.txt", "output": "out.txt", "template": "hello {}"}

    assert invoke(transform_file, {"config": config}) == {"output": "out.txt"}
    assert (workspace / "out.txt").read_text() == "hello world"


def test_transform_file_is_described_with_its_model() -> None:
    assert describe(transform_file).input_schema == _closed(
        {"config": {"$ref": "#/$defs/TransformConfig"}},
        **{
            "$defs": {
                "TransformConfig": {
                    "title": "TransformConfig",
                    "type": "object",
                    "properties": {
                        "input": {"type": "string", "description": "Input file path"},
                        "output": {"type": "string", "description": "Output file path"},
                        "template": {"type": "string", "description": "Template to apply"},
                    },
                    "required": ["input", "output", "template"],
                }
            }
        },
    )


def test_plain_functions_are_tools_without_a_mark(workspace: Path) -> None:
    written = invoke(write_file, {"path": "site/index.html", "content": "hi"})
    read = invoke(read_file, {"path": "site/index.html"})

    assert written == {"written": "site/index.html", "size": 2}
    assert read == {"path": "site/index.html", "content": "hi", "size": 2}
    assert (workspace / "site/index.html").is_file()
    assert get_tool_metadata(write_file) is None


def test_plain_functions_take_what_the_manifest_of_section_10_declares() -> None:
    assert describe(write_file).input_schema == _closed({"path": STRING, "content": STRING})
    assert describe(read_file).input_schema == _closed({"path": STRING})
    assert describe(run_command).input_schema == _closed({"command": STRING})


def test_run_command_runs_in_the_workspace(workspace: Path) -> None:
    result = invoke(run_command, {"command": "pwd; exit 3"})

    assert result == {"command": "pwd; exit 3", "output": f"{workspace}\n", "exit_code": 3}
