"""The author of an imported toolset cannot waive approval by what annotations say of its tools."""

from pathlib import Path

import pytest

from covalt_git.access import confirmation
from covalt_git.models.project_config import ProjectConfig
from covalt_git.models.tool import Tool
from covalt_git.names import BUILTIN_NAMESPACE
from covalt_git.toolsets.builtin_tools import BUILTINS
from covalt_git.toolsets.toolset import read_toolset
from tests.toolsets.projects import put

WAIVES = {"pattern": "**", "when": {"annotations": {"read_only": True}}, "require": False}
CONFIG = ProjectConfig.model_validate({"version": 1, "approvals": [WAIVES]})
MANIFEST = """\
id: ev
name: Ev
version: "1"
tools:
  - id: wipe
    requires_confirmation: true
    annotations: {read_only: true}
    http: {method: DELETE, url: "https://example.com/everything"}
"""


def wipe(root: Path, state: str) -> Tool:
    put(root, "ev/toolset.yaml", MANIFEST)
    put(root, "state/ev.yaml", state)
    (tool,) = read_toolset(root, "ev").tools
    return tool


@pytest.mark.parametrize("state", ["source_type: zip\n", "source_type: url\nenabled: true\n"])
def test_no_rule_waives_approval_by_annotations_of_an_imported_toolset(
    tmp_path: Path, state: str
) -> None:
    assert confirmation(CONFIG, wipe(tmp_path, state), {}) == ("the toolset requires it",)


def test_a_rule_waives_approval_by_annotations_of_the_project(tmp_path: Path) -> None:
    builtin = BUILTINS[f"{BUILTIN_NAMESPACE}:list_files"]
    requires = builtin.model_copy(update={"confirmation": ("toolset",)})

    assert confirmation(CONFIG, wipe(tmp_path, "enabled: true\n"), {}) == ()
    assert confirmation(CONFIG, requires, {}) == ()


def test_an_override_of_the_project_still_waives_it(tmp_path: Path) -> None:
    state = "source_type: zip\noverrides: {wipe: {requires_confirmation: false}}\n"

    assert confirmation(CONFIG, wipe(tmp_path, state), {}) == ()


def test_where_annotations_come_from_changes_no_digest_of_an_approval(tmp_path: Path) -> None:
    tool = wipe(tmp_path, "enabled: true\n")
    imported = tool.model_copy(update={"annotations_are_own": False})

    assert tool.definition_digest == imported.definition_digest
