"""Tools of MCP servers in the catalog: found and allowed by the namespace of their server."""

from pathlib import Path
from typing import Any

import pytest

from covalt_git.access import Principal
from covalt_git.catalog.catalog import Catalog
from covalt_git.errors import UnknownNameError
from covalt_git.manifests.state_files import write_lock, write_state
from covalt_git.models.tool_lock import ToolLock, locked_tool
from covalt_git.models.toolset_state import ToolsetState
from covalt_git.project import Project
from tests.models.test_tool_lock import DEFINITION

MANIFEST = """\
id: demo
name: Demo
version: "1"
tools:
  - {id: own, http: {url: "https://example.com/"}}
mcp_servers:
  - {id: web, command: web-server}
tool_overrides:
  - {tool_id: "web:search", renderer: code}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "toolsets/demo").mkdir(parents=True)
    (tmp_path / "covalt.yaml").write_text("version: 1\n", encoding="utf-8")
    (tmp_path / "toolsets/demo/toolset.yaml").write_text(MANIFEST, encoding="utf-8")
    lock(tmp_path, DEFINITION)
    accepted = {"web:search": locked_tool(DEFINITION).digest}
    write_state(tmp_path / "toolsets/state/demo.yaml", ToolsetState(accepted=accepted))
    return tmp_path


def lock(root: Path, definition: dict[str, Any]) -> None:
    tools = {"search": locked_tool(definition)}
    written = ToolLock(namespace="web", toolset_id="demo", kind="mcp", tools=tools)
    write_lock(root / "toolsets/locks/web.yaml", written)


def catalog(root: Path, role: str | None = None) -> Catalog:
    project = Project.open(root)
    return Catalog(project.config, Principal("someone", role), root)


@pytest.mark.parametrize("text", ["web:search", "web.search"])
def test_a_tool_is_found_by_the_namespace_of_its_server(root: Path, text: str) -> None:
    found = catalog(root).find_callable(text)

    assert found.tool.tool_id == "web:search"
    assert found.toolset.id == "demo"


def test_a_server_without_a_lock_is_an_error_with_the_command_that_refreshes_it(root: Path) -> None:
    declared = MANIFEST.replace("web-server}", "web-server}\n  - {id: far, command: far-server}")
    (root / "toolsets/demo/toolset.yaml").write_text(declared, encoding="utf-8")
    with (root / "covalt.yaml").open("a") as config:
        config.write("roles: {owner: {admin: true}, some: {allow: ['far.**']}}\n")
    hints = {}
    for role in ("owner", "some"):
        with pytest.raises(UnknownNameError) as refused:
            catalog(root, role).find("far:search")
        hints[role] = refused.value.hint

    assert hints["owner"] == "covalt-git source refresh demo/far"
    assert "refresh" not in hints["some"]


def test_a_role_sees_only_the_namespaces_that_it_allows(root: Path) -> None:
    text = "version: 1\nroles:\n  own: {allow: ['demo.**']}\n  web: {allow: ['web.**']}\n"
    (root / "covalt.yaml").write_text(text, encoding="utf-8")

    with pytest.raises(UnknownNameError):
        catalog(root, "own").find("web:search")
    assert catalog(root, "web").find("web:search").tool.enabled
    assert catalog(root, "web").sees_one_of("demo", ["demo:own", "web:search"])
    assert not catalog(root, "own").sees_all_of("demo", ["demo:own", "web:search"])
