"""Calls of Python tools as sections 4.2 to 4.4 describe them, with what each step can see."""

from typing import Any

import pytest

from tests.api_client import Api
from tests.mcp_client import add_toolset

MANIFEST = """\
id: probe
name: Probe
version: "1"
tools:
  - {id: show, entrypoint: "tools.probe:show_context"}
  - {id: fail, entrypoint: "tools.probe:fail"}
tool_overrides:
  - {tool_id: show, renderer: code, renderer_config: {content: $chat_id}}
  - {tool_id: fail, renderer: code, renderer_config: {content: $return.text}}
"""
TOOLS = """\
from pydantic import BaseModel

from covalt_toolset import get_context, tool


class Options(BaseModel):
    times: int


@tool(name="Show Context", description="Return what the function sees")
def show_context(name: str, *, options: Options) -> dict:
    context = get_context()
    before = sorted(file.name for file in context.workspace.iterdir())
    (context.workspace / f"{name}.txt").write_text(name)
    return {
        "before": before,
        "chat": context.chat_id,
        "toolset": context.toolset_id,
        "name": name,
        "times": options.times + 1,
    }


@tool()
def fail() -> dict:
    (get_context().workspace / "partial.txt").write_text("partial")
    raise ValueError("it is broken")
"""


@pytest.fixture
def probe(api: Api) -> Api:
    add_toolset(api.root, "probe", MANIFEST, TOOLS)
    return api


@pytest.mark.requirement(
    "covalt-4.2.context",
    "covalt-4.2.pydantic",
    "covalt-4.2.result",
    "covalt-4.3.1",
    "covalt-4.3.2",
    "covalt-4.3.4",
    "covalt-4.3.5",
    "covalt-4.3.7",
    "covalt-4.3.8",
    "covalt-5.2.chat_id",
    "covalt-7.4.stream",
)
def test_a_call_sees_the_workspace_and_leaves_its_files_and_result(probe: Api) -> None:
    probe.write("a.txt", "a")
    (probe.workspace / "b.txt").write_text("edited by the user", encoding="utf-8")

    call = probe.call("probe:show", name="made", options={"times": 2})

    assert call["status"] == "success"
    assert call["result"] == {
        "before": ["a.txt", "b.txt"],
        "chat": "c1",
        "toolset": "probe",
        "name": "made",
        "times": 3,
    }
    assert call["render_plan"]["config"] == {"content": "c1"}
    assert probe.files(call["pre_manifest_id"]).keys() == {"a.txt", "b.txt"}
    assert probe.files(call["post_manifest_id"]).keys() == {"a.txt", "b.txt", "made.txt"}
    stream = probe.tell(
        "stream", chat_id="c1", tool_id="probe:show", args={"name": "c", "options": {"times": 0}}
    ).get_data(as_text=True)
    assert "ToolCallCompleted" in stream
    assert probe.files().keys() == {"a.txt", "b.txt", "made.txt", "c.txt"}


@pytest.mark.requirement(
    "covalt-4.3.7",
    "covalt-4.4.error",
    "covalt-4.4.status",
    "covalt-4.4.snapshot",
    "covalt-4.4.plan",
)
def test_a_failed_call_has_its_error_its_files_and_a_plan(probe: Api) -> None:
    call: Any = probe.call("probe:fail")

    assert call["status"] == "error"
    assert call["error"] == "tool_raised: ValueError: it is broken"
    assert probe.files(call["post_manifest_id"]).keys() == {"partial.txt"}
    assert "it is broken" in str(call["render_plan"])


@pytest.mark.requirement("covalt-4.2.metadata", "covalt-4.2.discoverable", "covalt-4.3.3")
def test_name_description_and_schema_are_those_of_the_decorator(probe: Api) -> None:
    tool = probe.get("get_tool", tool_id="probe:show")

    assert (tool["name"], tool["description"]) == ("Show Context", "Return what the function sees")
    assert tool["schema_from"] == "source"
    assert tool["input_schema"]["required"] == ["name", "options"]
