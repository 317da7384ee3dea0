"""What a grant of an MCP server is bound to: all that its toolset writes of it, and its files."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalt_git.models.server_definition import command_line, process_facts, server_facts
from covalt_git.models.toolset_manifest import McpServer
from covalt_git.text import display

FILES = {
    path: f"{number:064x}"
    for number, path in enumerate(
        [
            "README.md",
            "page/index.html",
            "server/deep/data.json",
            "server/lib.py",
            "server/main.py",
            "toolset.yaml",
            "tools/files.py",
        ]
    )
}
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


@pytest.mark.parametrize(
    "change",
    [
        {"id": "other"},
        {"command": "python3"},
        {"args": ["server/main.py"]},
        {"args": ["server/main.py --fast"]},
        {"args": ["--fast", "server/main.py"]},
        {"cwd": "server"},
        {"cwd": "."},
        {"env": {"KEY": "${MAPS_KEY}"}},
        {"env": {"KEY": "${OTHER_KEY}", "MODE": "fast"}},
        {"env": {"KEY": "${MAPS_KEY}", "MODE": "--require evil.js"}},
        {"env": {"KEY": "${MAPS_KEY:-evil}", "MODE": "fast"}},
        {"env": {"KEY": "${MAPS_KEY}", "MODE": "fast", "LD_PRELOAD": "x"}},
    ],
)
def test_every_change_of_a_program_is_another_digest(change: dict[str, Any]) -> None:
    before = process_facts(program(), FILES)

    assert process_facts(program(**change), FILES)["digest"] != before["digest"]
    assert process_facts(program(), FILES) == before


@pytest.mark.parametrize(
    "change",
    [
        {"id": "other"},
        {"url": "https://example.com/mcp/"},
        {"transport": "streamable-http"},
        {"headers": {}},
        {"headers": {"Authorization": "Bearer ${OTHER}"}},
        {"headers": {"Authorization": "Bearer ${KEY}", "X-More": "1"}},
    ],
)
def test_every_change_of_an_address_is_another_digest(change: dict[str, Any]) -> None:
    assert server_facts(address(**change))["digest"] != server_facts(address())["digest"]


def test_what_is_no_part_of_it_changes_nothing() -> None:
    asked = {"enabled": False, "requires_confirmation": False}
    others = FILES | {"toolset.yaml": "f" * 64, "README.md": "f" * 64, "tools/new.py": "f" * 64}

    assert process_facts(program(**asked), others) == process_facts(program(), FILES)
    assert server_facts(address(**asked)) == server_facts(address())


@pytest.mark.parametrize("path", ["server/main.py", "server/lib.py", "server/deep/data.json"])
def test_a_script_is_bound_with_what_lies_beside_and_below_it(path: str) -> None:
    before = process_facts(program(), FILES)["digest"]
    without = {one: hexed for one, hexed in FILES.items() if one != path}

    assert process_facts(program(), FILES | {path: "f" * 64})["digest"] != before
    assert process_facts(program(), without)["digest"] != before
    assert process_facts(program(), FILES | {"server/new.py": "f" * 64})["digest"] != before


@pytest.mark.parametrize(
    "path", ["package.json", "node_modules/x/index.js", "server/node_modules/x"]
)
def test_a_script_is_bound_with_the_packages_that_node_finds_above_it(path: str) -> None:
    before = process_facts(program(), FILES)["digest"]

    assert process_facts(program(), FILES | {path: "f" * 64})["digest"] != before


SERVER = ["server/deep/data.json", "server/lib.py", "server/main.py"]
ALL = sorted(FILES.keys() - {"toolset.yaml"})


@pytest.mark.parametrize(
    ("facts", "named"),
    [
        pytest.param({"args": ["-m", "server.main"]}, SERVER, id="a-module"),
        pytest.param({"args": ["-m", "server"]}, SERVER, id="a-package"),
        pytest.param({"command": "./server/main.py", "args": []}, SERVER, id="the-command"),
        pytest.param({"args": ["server/../server//main.py"]}, SERVER, id="a-detour"),
        pytest.param({"args": ["--script=server/main.py"]}, SERVER, id="an-option"),
        pytest.param({"args": ["-c", "cd server; python main.py"]}, SERVER, id="a-shell"),
        pytest.param({"args": ["toolsets/demo/server/main.py"]}, SERVER, id="from-the-project"),
        pytest.param({"args": ["/here/toolsets/demo/server/main.py"]}, SERVER, id="absolute"),
        pytest.param({"args": ["main.py"], "cwd": "server"}, SERVER, id="in-its-folder"),
        pytest.param({"args": ["x"], "cwd": "./server/"}, SERVER, id="its-folder-alone"),
        pytest.param({"args": ["../main.py"], "cwd": "server/deep"}, SERVER, id="above-it"),
        pytest.param({"args": [], "env": {"A": "-r ./server/lib.py"}}, SERVER, id="a-variable"),
        pytest.param({"args": ["start"], "cwd": "."}, ALL, id="the-whole-folder"),
        pytest.param({"args": ["."]}, ALL, id="the-whole-folder-as-an-argument"),
        pytest.param({"args": ["README.md"]}, ALL, id="a-file-at-the-top"),
        pytest.param({"command": "npx", "args": ["-y", "@scope/maps@1.2"]}, [], id="none"),
        pytest.param({"args": ["../elsewhere/x.py", "/usr/bin/x", ""]}, [], id="none-of-its-own"),
    ],
)
def test_the_files_of_a_program_are_those_that_its_words_name(
    facts: dict[str, Any], named: list[str]
) -> None:
    facts = {"args": [], "env": {}} | facts

    assert list(process_facts(program(**facts), FILES)["files"]) == named


words = st.text(st.characters(codec="utf-8"), max_size=8)


@given(one=st.lists(words, max_size=4), other=st.lists(words, max_size=4))
def test_commands_are_one_line_and_as_different_as_their_words(
    one: list[str], other: list[str]
) -> None:
    assert display.in_line(command_line(one)) == command_line(one)
    digests = [process_facts(program(args=args), {})["digest"] for args in (one, other)]
    assert (digests[0] == digests[1]) == (one == other)


def test_what_nobody_sees_in_a_command_is_written_out() -> None:
    hostile = [
        "npx",
        "a\nb",
        "\x1b[2K",
        "safe\u202egnp",
        "zero\u200bwidth",
        "\U000e0041",
        "it's $HOME",
    ]

    assert command_line(hostile) == (
        "npx 'a\\u{a}b' '\\u{1b}[2K' 'safe\\u{202e}gnp' 'zero\\u{200b}width' '\\u{e0041}'"
        """ 'it'"'"'s $HOME'"""
    )
