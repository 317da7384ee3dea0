"""Entrypoints whose module is relative to ``tools/``, as section 4.1 describes them."""

from pathlib import Path
from typing import Any

import pytest

from tests.api_client import Api

MANIFEST = """\
id: words
name: Words
version: "1"
tools:
  - {id: count, entrypoint: "analyze:run"}
  - {id: deep, entrypoint: "more.analyze:run"}
"""
TOOL = 'from covalt_toolset import tool\n\n@tool(name="{0}")\ndef run() -> str:\n    return "{0}"\n'


@pytest.fixture
def words(root: Path) -> Path:
    folder = root / "toolsets/words"
    (folder / "tools/more").mkdir(parents=True)
    (folder / "toolset.yaml").write_text(MANIFEST, encoding="utf-8")
    (folder / "tools/analyze.py").write_text(TOOL.format("in tools"), encoding="utf-8")
    (folder / "tools/more/analyze.py").write_text(TOOL.format("deep"), encoding="utf-8")
    return folder


def facts(api: Api, tool_id: str = "words:count") -> tuple[Any, ...]:
    """Return the name that is read, the entrypoint, the result that is returned, and the problems."""
    tool = api.get("get_tool", tool_id=tool_id)
    problems = api.get("get_toolset", toolset_id="words")["problems"]
    result = api.call(tool_id)["result"]
    return tool["name"], tool["entrypoint"], result, [one["code"] for one in problems]


@pytest.mark.requirement("covalt-4.1.format", "covalt-4.1.relative")
def test_a_module_is_found_in_tools_and_before_that_in_the_toolset(words: Path, api: Api) -> None:
    assert facts(api) == ("in tools", "tools.analyze:run", "in tools", [])
    assert facts(api, "words:deep") == ("deep", "tools.more.analyze:run", "deep", [])

    (words / "analyze.py").write_text(TOOL.format("at the top"), encoding="utf-8")
    assert facts(api) == ("at the top", "analyze:run", "at the top", ["CG318"])


@pytest.mark.requirement("covalt-4.1.relative")
def test_an_approval_shows_the_file_that_runs(words: Path, api: Api) -> None:
    text = MANIFEST.replace('analyze:run"}', 'analyze:run", requires_confirmation: true}', 1)
    (words / "toolset.yaml").write_text(text, encoding="utf-8")
    pending = api.call("words:count")

    approval = api.get("get_approval", execution_id=pending["execution_id"])

    assert (approval["code"]["path"], approval["code"]["line"]) == ("tools/analyze.py", 4)
