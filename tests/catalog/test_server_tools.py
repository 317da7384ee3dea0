"""Tools of MCP servers in the catalog and the index: found by their namespace, and never stale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from covalt_git.access import Principal
from covalt_git.access.grants import GrantNeededError
from covalt_git.calls.engine import Request
from covalt_git.catalog.catalog import BrokenToolsetError, Catalog, DisabledToolError
from covalt_git.errors import UnknownNameError
from covalt_git.manifests.state_files import write_lock, write_state
from covalt_git.models.tool_lock import ToolLock, locked_tool
from covalt_git.models.toolset_state import ToolsetState
from covalt_git.project import Project
from tests.models.test_tool_lock import DEFINITION, mutated

if TYPE_CHECKING:
    from pathlib import Path

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
    return Catalog(root, project.config, Principal("someone", role))


def indexed(root: Path) -> dict[str, bool]:
    with Project.open(root).index() as index:
        index.sync_toolsets()
        return {tool.tool_id: tool.enabled for tool in index.tools()}


@pytest.mark.parametrize("text", ["web:search", "web.search"])
def test_a_tool_is_found_by_the_namespace_of_its_server(root: Path, text: str) -> None:
    found = catalog(root).find_callable(text)

    assert found.tool.tool_id == "web:search"
    assert found.toolset.id == "demo"


@pytest.mark.parametrize("text", ["web:serch", "wbe:search", "demo:search"])
def test_an_unknown_name_is_an_error_with_the_nearest_name(root: Path, text: str) -> None:
    with pytest.raises(UnknownNameError) as refused:
        catalog(root).find(text)
    assert "web:search" in refused.value.hint


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


def test_a_tool_of_a_disabled_server_is_disabled(root: Path) -> None:
    declared = MANIFEST.replace("web-server}", "web-server, enabled: false}")
    (root / "toolsets/demo/toolset.yaml").write_text(declared, encoding="utf-8")

    with pytest.raises(DisabledToolError, match="is disabled: its MCP server 'web' is off") as off:
        catalog(root).find_callable("web:search")
    assert "mcp_servers in toolsets/demo/toolset.yaml" in off.value.hint


def test_a_changed_tool_is_disabled(root: Path) -> None:
    lock(root, mutated(["description"], "Another."))

    with pytest.raises(DisabledToolError, match="has changed since it was accepted") as refused:
        catalog(root).find_callable("web:search")
    assert refused.value.hint == "covalt-git source diff demo/web"


def test_a_role_sees_only_the_namespaces_that_it_allows(root: Path) -> None:
    text = "version: 1\nroles:\n  own: {allow: ['demo.**']}\n  web: {allow: ['web.**']}\n"
    (root / "covalt.yaml").write_text(text, encoding="utf-8")

    with pytest.raises(UnknownNameError):
        catalog(root, "own").find("web:search")
    assert catalog(root, "web").find("web:search").tool.enabled
    assert catalog(root, "web").sees_one_of("demo", ["demo:own", "web:search"])
    assert not catalog(root, "own").sees_all_of("demo", ["demo:own", "web:search"])


def test_a_broken_toolset_has_no_tools_of_servers(root: Path) -> None:
    file = root / "toolsets/demo/toolset.yaml"
    file.write_text(MANIFEST.replace("name: Demo", "nam: Demo"), encoding="utf-8")

    with pytest.raises(BrokenToolsetError):
        catalog(root).find("web:search")


def test_the_index_follows_a_lock(root: Path) -> None:
    assert indexed(root) == {"demo:own": True, "web:search": True}

    lock(root, mutated(["description"], "Another."))
    assert indexed(root) == {"demo:own": True, "web:search": False}

    (root / "toolsets/locks/web.yaml").unlink()
    assert indexed(root) == {"demo:own": True}

    lock(root, DEFINITION)
    assert indexed(root) == {"demo:own": True, "web:search": True}


def test_a_new_toolset_replaces_the_namespace_of_a_server(root: Path) -> None:
    indexed(root)
    (root / "toolsets/web").mkdir()
    text = 'id: web\nname: Web\nversion: "1"\ntools: [{id: search, http: {url: "https://a.b/"}}]\n'
    (root / "toolsets/web/toolset.yaml").write_text(text, encoding="utf-8")

    with Project.open(root).index() as index:
        index.sync_toolsets()
        found = index.tool("web:search")
    assert found is not None
    assert (found.toolset_id, found.kind) == ("web", "http")


@pytest.mark.parametrize("words", ["search the web", "parameters q search", "demo search"])
def test_a_search_finds_tools_of_servers(root: Path, words: str) -> None:
    with Project.open(root).index() as index:
        index.sync_toolsets()
        everywhere = catalog(root).search(index, words, limit=5)
        within = catalog(root).search(index, words, limit=5, toolset_id="demo")
        elsewhere = catalog(root).search(index, words, limit=5, toolset_id="web")
    assert "web:search" in [one.tool_id for one in everywhere]
    assert "web:search" in [one.tool_id for one in within]
    assert elsewhere == []


def test_a_call_without_a_grant_of_the_server_is_refused(root: Path) -> None:
    with pytest.raises(GrantNeededError, match="'demo' may not use its MCP server 'web'"):
        Project.open(root).engine().check(Request("web:search", {"q": "cats"}))
