"""The tools of the specification, sections 4.2 and 10, as an author would copy them."""

import json
import subprocess
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from covalt_toolset import describe, get_context, invoke, set_context, to_json, tool


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


def closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def test_tools_of_the_specification_are_described() -> None:
    analyze = describe(analyze_data)
    transform = describe(transform_file).input_schema

    assert (analyze.name, analyze.description) == (
        "Analyze Data",
        "Analyze a data file and return statistics",
    )
    assert analyze.input_schema == closed(
        {"filename": {**STRING, "description": "File to analyze"}}
    )
    assert analyze.output_schema == {"type": "object", "additionalProperties": True}
    assert transform["properties"] == {"config": {"$ref": "#/$defs/TransformConfig"}}
    assert transform["$defs"]["TransformConfig"]["required"] == ["input", "output", "template"]
    assert describe(write_file).input_schema == closed({"path": STRING, "content": STRING})
    assert describe(run_command).input_schema == closed({"command": STRING})


def test_tools_of_the_specification_work_in_the_workspace(tmp_path: Path) -> None:
    config = {"input": "site/in.txt", "output": "out.txt", "template": "hello {}"}

    with set_context(workspace=tmp_path):
        written = invoke(write_file, {"path": "site/in.txt", "content": "world"})
        transformed = invoke(transform_file, {"config": config})
        analyzed = to_json(invoke(analyze_data, {"filename": "out.txt"}))
        run = invoke(run_command, {"command": "pwd; exit 3"})

    assert written == {"written": "site/in.txt", "size": 5}
    assert transformed == {"output": "out.txt"}
    assert (tmp_path / "out.txt").read_text() == "hello world"
    assert analyzed["stats"] == {"rows": 100, "columns": 5}
    assert json.loads((tmp_path / "output.json").read_text()) == {"rows": 1}
    assert run == {"command": "pwd; exit 3", "output": f"{tmp_path}\n", "exit_code": 3}
