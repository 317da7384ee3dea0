"""Overrides of the project: every field replaces the toolset's, and the state file holds only these."""

from pathlib import Path
from typing import Any

import pytest

from covalt_git.errors import CovaltError
from covalt_git.index.index import Index
from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.models.renderers import Renderer
from covalt_git.models.tool import Tool
from covalt_git.toolsets.overrides import FIELDS, BadOverrideError, override_tool
from covalt_git.toolsets.project_files import read_project
from covalt_git.toolsets.toolset import read_toolset
from tests.toolsets.projects import put

SECRET = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6"
MANIFEST = """\
id: demo
name: Demo
version: "1"
tools:
  - id: web
    name: Declared
    description: declared
    requires_confirmation: true
    http: {url: "https://example.com/{city}"}
    input_schema: {type: object, properties: {city: {type: string}}, required: [city]}
  - {id: off, enabled: false, http: {url: "https://example.com/"}}
  - {id: plain, http: {url: "https://example.com/"}}
tool_overrides:
  - tool_id: web
    name_override: Theirs
    description_override: theirs
    renderer: code
    renderer_config: {content: $return, language: json}
    requires_confirmation: true
    enabled: true
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "covalt.yaml").write_text("version: 1\n", encoding="utf-8")
    put(tmp_path, "demo/toolset.yaml", MANIFEST)
    return tmp_path


def state_text(root: Path) -> str:
    file = root / "toolsets/state/demo.yaml"
    return file.read_text(encoding="utf-8") if file.exists() else ""


def tool(root: Path, name: str = "web") -> Tool:
    found = read_toolset(root, "demo").tool(f"demo:{name}")
    assert found is not None
    return found


WINS: list[tuple[dict[str, Any], str, object]] = [
    ({"name_override": "Ours"}, "name", "Ours"),
    ({"description_override": "ours"}, "description", "ours"),
    ({"description_override": ""}, "description", ""),
    ({"renderer": "document"}, "renderer", Renderer(type="document")),
    ({"renderer_config": {"content": "a"}}, "renderer", Renderer(type="code", config={"content": "a"})),
    ({"requires_confirmation": False}, "confirmation", ()),
    ({"requires_confirmation": True}, "confirmation", ("project",)),
    ({"enabled": False}, "enabled", False),
    ({"callers": ["script"]}, "callers", ("script",)),
]  # fmt: skip


def test_every_field_is_tested_below() -> None:
    assert {field for changes, _, _ in WINS for field in changes} == set(FIELDS)


@pytest.mark.requirement(
    "covalt-5.3.override", "covalt-1.4.name_override", "covalt-1.4.description_override"
)
@pytest.mark.parametrize(("changes", "field", "wanted"), WINS, ids=[str(one[0]) for one in WINS])
def test_every_field_replaces_the_toolsets_in_the_files_and_the_index(
    root: Path, changes: dict[str, Any], field: str, wanted: object
) -> None:
    before = tool(root)
    assert getattr(before, field) != wanted

    found = override_tool(root, "demo:web", changes)

    assert found.changed
    assert found.project.model_dump(mode="json", exclude_none=True) == changes
    assert getattr(tool(root), field) == wanted
    with Index.open(root, WorkspaceConfig()) as index:
        index.sync_toolsets()
        (indexed,) = [one for one in index.tools() if one.tool_id == "demo:web"]
        assert indexed == tool(root)
    assert read_project(root).problems == ()

    cleared = override_tool(root, "demo:web", {}, FIELDS)
    assert cleared.changed
    assert tool(root) == before
    assert not (root / "toolsets/state/demo.yaml").exists()


MISTAKES: list[tuple[dict[str, Any], str, str, str]] = [
    ({"renderer": "cod"}, "CG203", "cod", "error"),
    ({"renderer": "code", "renderer_config": {"fil": "a"}}, "CG201", "fil: a", "error"),
    ({"renderer": "html", "renderer_config": {"artifact": "a.html"}}, "CG304", "a.html", "error"),
    ({"renderer": "html", "renderer_config": {"artifact": "../a"}}, "CG304", '"../a', "error"),
    ({"name_override": ""}, "CG203", '""', "error"),
    ({"name_override": "x" * 201}, "CG203", "xxx", "error"),
    ({"enabled": "no"}, "CG203", '"no"', "error"),
    ({"colour": "red"}, "CG201", "colour: red", "error"),
    ({"description_override": "a\u202eb"}, "CG213", "\u202eb", "error"),
    ({"description_override": f"ghp_{SECRET}"}, "CG212", "ghp_", "error"),
    ({"renderer": "html"}, "CG202", "renderer: html", "warning"),
    ({"renderer_config": {"content": "$args.town"}}, "CG214", '"$args.town"', "warning"),
]  # fmt: skip
"""Overrides of the tool ``web``, their problem, where it is in the file, and how severe it is."""


@pytest.mark.parametrize(("changes", "code", "written", "severity"), MISTAKES)
def test_an_override_with_an_error_is_refused_and_one_with_a_warning_is_written(
    root: Path, changes: dict[str, Any], code: str, written: str, severity: str
) -> None:
    override_tool(root, "demo:web", {"description_override": "Ours"})
    before = state_text(root)

    if severity == "error":
        with pytest.raises(BadOverrideError) as refused:
            override_tool(root, "demo:web", changes)
        assert code in {one.code for one in refused.value.problems}
        assert {one.path for one in refused.value.problems} == {"toolsets/state/demo.yaml"}
        assert SECRET not in str(refused.value)
        assert state_text(root) == before
    else:
        (warning,) = override_tool(root, "demo:web", changes).warnings
        assert (warning.code, warning.severity) == (code, severity)
        assert written in state_text(root)


@pytest.mark.parametrize(
    ("path", "text"), [("state/demo.yaml", "enabld: true\n"), ("demo/toolset.yaml", "id: [\n")]
)
def test_a_file_that_cannot_be_read_is_not_changed(root: Path, path: str, text: str) -> None:
    put(root, "state/demo.yaml", "overrides:\n  web: {enabled: false}\n")
    put(root, path, text)
    before = state_text(root)

    with pytest.raises(CovaltError):
        override_tool(root, "demo:web", {"enabled": True})

    assert state_text(root) == before
