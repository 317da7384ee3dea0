"""The stress test of widely used MCP servers: its data file, and its table in the docs."""

import pytest

from covalt_git.models.sources.package_command import package_command
from covalt_git.models.toolset_manifest import McpServer
from tests.stress import figures, servers

PACKAGES = 25
WORKING = 20


@pytest.mark.parametrize("name", servers.SERVERS)
def test_each_server_runs_a_package_of_a_registry_at_its_version(name: str) -> None:
    row = servers.SERVERS[name]
    command = package_command(McpServer.model_validate(servers.declared(row)))

    assert command is not None
    package = servers.package_of(name)
    (requirement,) = (text for text in command.requirements if text.startswith(package))
    assert requirement.removeprefix(package).lstrip("@=") == row.get("version", "")


def test_the_docs_have_the_result_of_each_server() -> None:
    rows = figures.rows_of("servers")
    result = servers.TITLES.index("result")
    working = [row for name, row in rows.items() if row[result] == "works"]

    assert rows.keys() - {servers.TITLES[0]} == servers.SERVERS.keys()
    assert {row[0] for row in working} == {
        name for name, row in servers.SERVERS.items() if "lacking" not in row and "error" not in row
    }
    assert all(row[servers.TITLES.index("same as unsandboxed")] == "yes" for row in working)
    assert len({servers.package_of(name) for name in servers.SERVERS}) >= PACKAGES
    assert len({servers.package_of(row[0]) for row in working}) >= WORKING
