"""The digest of an MCP server: its keys in the manifest, and the files that its program uses."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalt_git.models.sources.server_definition import command_line, process_facts, server_facts
from covalt_git.models.toolset_manifest import McpServer
from covalt_git.text import display
from tests.tables import tables

TABLES = tables(__file__)

PATHS = (
    *("README.md", "page/index.html", "server/deep/data.json", "server/lib.py", "server/main.py"),
    *("toolset.yaml", "tools/files.py"),
)
FILES = {path: f"{number:064x}" for number, path in enumerate(PATHS)}
PROGRAM = {
    "id": "maps",
    "command": "python",
    "args": ["server/main.py", "--fast"],
    "cwd": None,
    "env": {"KEY": "${MAPS_KEY}", "MODE": "fast"},
}
ADDRESS = {
    "id": "far",
    "url": "https://example.com/mcp",
    "transport": "sse",
    "headers": {"Authorization": "Bearer ${KEY}"},
}


def program(**facts: Any) -> McpServer:
    return McpServer.model_validate(PROGRAM | facts)


def address(**facts: Any) -> McpServer:
    return McpServer.model_validate(ADDRESS | facts)


@pytest.mark.parametrize("change", TABLES["program_changes"])
def test_every_change_of_a_program_changes_its_digest(change: dict[str, Any]) -> None:
    before = process_facts(program(), FILES)

    assert process_facts(program(**change), FILES)["digest"] != before["digest"]
    assert process_facts(program(), FILES) == before


@pytest.mark.parametrize("change", TABLES["remote_changes"])
def test_every_change_of_a_remote_server_changes_its_digest(change: dict[str, Any]) -> None:
    assert server_facts(address(**change))["digest"] != server_facts(address())["digest"]


@pytest.mark.parametrize(
    ("args", "is_covered"),
    [
        (["server/main.py"], False),
        (["$toolset/toolset.yaml"], True),
        (["server/main.py", "--settings=./toolset.yaml"], True),
    ],
)
def test_a_grant_covers_the_manifest_if_the_command_names_it(
    args: list[str], *, is_covered: bool
) -> None:
    assert ("toolset.yaml" in process_facts(program(args=args), FILES)["files"]) == is_covered


@pytest.mark.parametrize(("facts", "starts"), TABLES["files"])
def test_a_grant_covers_every_file_that_a_program_can_load(
    facts: dict[str, Any], *, starts: bool
) -> None:
    facts = {"args": [], "env": {}} | facts

    files = process_facts(program(**facts), FILES)["files"]

    assert files.keys() == (FILES.keys() - {"toolset.yaml"} if starts else set())


@pytest.mark.parametrize("path", ["new.py", "server/main.py", "node_modules/x/index.js"])
def test_each_file_that_is_added_or_changed_changes_the_digest(path: str) -> None:
    before = process_facts(program(), FILES)["digest"]

    assert process_facts(program(), FILES | {path: "f" * 64})["digest"] != before


words = st.text(st.characters(codec="utf-8"), max_size=8)


@given(one=st.lists(words, max_size=4), other=st.lists(words, max_size=4))
def test_command_is_one_line_and_its_digest_is_that_of_its_words(
    one: list[str], other: list[str]
) -> None:
    assert display.in_line(command_line(one)) == command_line(one)
    digests = [process_facts(program(args=args), {})["digest"] for args in (one, other)]
    assert (digests[0] == digests[1]) == (one == other)
