"""Tools of MCP servers in the catalog: found and allowed by the namespace of their server."""

from pathlib import Path

import pytest

from covalt_git.access import Principal
from covalt_git.catalog.catalog import Catalog
from covalt_git.errors import UnknownNameError
from covalt_git.project import Project
from tests.toolsets.test_server_tools import manifest, root

__all__ = ["root"]


def catalog(root: Path, role: str | None = None) -> Catalog:
    project = Project.open(root)
    return Catalog(project.config, Principal("someone", role), root)


@pytest.mark.parametrize("text", ["web:search.web", "web.search.web"])
def test_a_tool_is_found_by_the_namespace_of_its_server(root: Path, text: str) -> None:
    found = catalog(root).find_callable(text)

    assert found.tool.tool_id == "web:search.web"
    assert found.toolset.id == "demo"


def test_a_server_without_a_lock_is_an_error_with_the_command_that_refreshes_it(root: Path) -> None:
    manifest(root, "mcp_servers:", "mcp_servers:\n  - {id: far, command: far-server}")
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
        catalog(root, "own").find("web:search.web")
    assert catalog(root, "web").find("web:search.web").tool.enabled
    assert catalog(root, "web").sees_one_of("demo", ["demo:own", "web:search.web"])
    assert not catalog(root, "own").sees_all_of("demo", ["demo:own", "web:search.web"])
