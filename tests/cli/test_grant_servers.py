"""``grant`` for MCP servers: exactly what they are, shown whole, and what has changed where it ends."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from covalt_git.access.grants import Granted, GrantNeededError, granted
from covalt_git.toolsets.toolset import read_toolset

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MANIFEST = """\
id: demo
name: Demo
version: "1"
secrets: [MAPS_KEY]
mcp_servers:
  - {id: maps, command: python, args: [server/main.py], env: {KEY: "${MAPS_KEY}", MODE: fast}}
  - {id: far, url: "https://example.com/mcp", headers: {Authorization: "Bearer ${MAPS_KEY}"}}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "toolsets/demo/server").mkdir(parents=True)
    (tmp_path / "covalt.yaml").write_text("version: 1\n", encoding="utf-8")
    (tmp_path / "toolsets/demo/toolset.yaml").write_text(MANIFEST, encoding="utf-8")
    (tmp_path / "toolsets/demo/server/main.py").write_text("x = 1\n", encoding="utf-8")
    return tmp_path


def rewrite(root: Path, old: str, new: str, path: str = "toolset.yaml") -> None:
    file = root / "toolsets/demo" / path
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def check(root: Path) -> list[str]:
    """Return which of the two servers may be used now."""
    toolset = read_toolset(root, "demo")
    assert toolset.manifest is not None
    may: Granted = granted("demo", toolset.state, toolset.digest)
    maps, far = toolset.manifest.mcp_servers
    used = []
    with suppress(GrantNeededError):
        may.check_process(maps, toolset.files.hashes)
        used.append("maps")
    with suppress(GrantNeededError):
        may.check_server(far)
        used.append("far")
    return used


def test_the_exact_thing_is_shown_and_is_what_is_granted(
    root: Path, cli: Callable[..., tuple[int, str]]
) -> None:
    assert check(root) == []
    code, said = cli("grant", "add", "demo", "process", "maps")

    assert code == 0
    head, command, key, mode, file = said.splitlines()
    assert head == "demo may start its MCP server maps, until any of this changes:"
    assert command == "  command: python server/main.py"
    assert (key, mode) == ("  variable: 'KEY=${MAPS_KEY}'", "  variable: MODE=fast")
    assert file.startswith("  file: server/main.py sha256:")
    assert check(root) == ["maps"]

    assert cli("grant", "add", "demo", "server", "far")[1] == (
        "demo may use its MCP server far, until any of this changes:\n"
        "  address: https://example.com/mcp (streamable-http)\n"
        "  header: 'Authorization=Bearer ${MAPS_KEY}'\n"
    )
    assert check(root) == ["maps", "far"]
    state = (root / "toolsets/state/demo.yaml").read_text(encoding="utf-8")
    assert "MAPS_KEY" not in state


@pytest.mark.parametrize(
    ("old", "new", "key", "changed"),
    [
        pytest.param(
            "args: [server/main.py]", "args: [server/main.py, --all]", "process-maps",
            "the command was python server/main.py, and is python server/main.py --all",
            id="argument",
        ),
        pytest.param("MODE: fast", "MODE: slow", "process-maps", "what a variable says has changed", id="text-of-a-variable"),
        pytest.param(", MODE: fast", "", "process-maps", "the variable MODE is gone", id="variable-gone"),
        pytest.param(", MODE: fast", ", MODE: fast, LD_PRELOAD: x.so", "process-maps", "the variable LD_PRELOAD is new", id="variable-new"),
        pytest.param("env:", "cwd: /tmp, env:", "process-maps", "its folder was none, and is /tmp", id="folder"),
        pytest.param("{id: maps,", "{id: mops,", "process-maps", "there is no MCP server 'maps' any more", id="gone"),
        pytest.param(
            'command: python, args: [server/main.py], env: {KEY: "${MAPS_KEY}", MODE: fast}', 'url: "https://a.b/"',
            "process-maps", "it is at an address now", id="program-to-address",
        ),
        pytest.param(
            "example.com/mcp", "example.org/mcp", "server-far",
            "the address was https://example.com/mcp, and is https://example.org/mcp", id="address",
        ),
        pytest.param("headers:", "transport: sse, headers:", "server-far", "the transport was streamable-http, and is sse", id="transport"),
        pytest.param("Bearer ", "Basic ", "server-far", "what a header says has changed", id="text-of-a-header"),
        pytest.param("Authorization:", "X-Key:", "server-far", "the header Authorization is gone; the header X-Key is new", id="header"),
    ],
)  # fmt: skip
def test_any_change_ends_just_that_and_is_told(
    root: Path, cli: Callable[..., tuple[int, str]], old: str, new: str, key: str, changed: str
) -> None:
    cli("grant", "add", "demo", "process", "maps")
    cli("grant", "add", "demo", "server", "far")
    rewrite(root, old, new)

    rows: list[dict[str, Any]] = json.loads(cli("grant", "list", "--json")[1])["grants"]
    told = {row["key"]: "; ".join(row["changed"]) for row in rows}
    other = ({"process-maps", "server-far"} - {key}).pop()
    assert told == {key: changed, other: ""}
    assert {row["key"]: row["holds"] for row in rows} == {key: False, other: True}

    _, said = cli("grant", "list", "demo")
    assert all(f"demo {key}: {one}" in said for one in changed.split("; "))
    assert f"demo {other}: " not in said


def test_a_file_of_the_program_ends_it_and_any_other_does_not(
    root: Path, cli: Callable[..., tuple[int, str]]
) -> None:
    cli("grant", "add", "demo", "process", "maps")
    (root / "toolsets/demo/notes.md").write_text("x", encoding="utf-8")
    rewrite(root, 'version: "1"', 'version: "2"')
    assert check(root) == ["maps"]

    rewrite(root, "x = 1", "x = 2", "server/main.py")
    (root / "toolsets/demo/server/lib.py").write_text("y = 1\n", encoding="utf-8")
    assert check(root) == []
    _, said = cli("grant", "list")
    assert "demo process-maps: server/lib.py is new\n" in said
    assert "demo process-maps: server/main.py has changed\n" in said

    cli("grant", "add", "demo", "process", "maps")
    assert check(root) == ["maps"]


def test_words_of_a_state_file_that_are_not_those_of_its_digest_grant_nothing(
    root: Path, cli: Callable[..., tuple[int, str]]
) -> None:
    cli("grant", "add", "demo", "process", "maps")
    state = root / "toolsets/state/demo.yaml"
    text = state.read_text(encoding="utf-8")
    state.write_text(text.replace("server/main.py\n", "harmless.py\n"), encoding="utf-8")

    assert check(root) == []
    assert (
        "the command was python harmless.py, and is python server/main.py"
        in cli("grant", "list")[1]
    )


def test_what_lacks_a_grant_is_said_where_people_look(
    root: Path, cli: Callable[..., tuple[int, str]]
) -> None:
    maps = "the toolset 'demo' may not start python server/main.py"
    far = "the toolset 'demo' may not use the MCP server at https://example.com/mcp"
    wanted = [
        {"server": "maps", "why": maps, "command": "covalt-git grant add demo process maps"},
        {"server": "far", "why": far, "command": "covalt-git grant add demo server far"},
    ]
    assert json.loads(cli("validate", "--json")[1])["lacking"] == wanted
    assert json.loads(cli("toolset", "show", "demo", "--json")[1])["lacking"] == wanted
    code, said = cli("validate", "--strict")
    assert code == 0
    assert f"not granted: {maps}\n  hint: covalt-git grant add demo process maps\n" in said

    cli("grant", "add", "demo", "server", "far")
    cli("grant", "add", "demo", "process", "maps")
    rewrite(root, "x = 1", "x = 2", "server/main.py")
    said = cli("toolset", "show", "demo")[1]
    assert f"not granted: {maps}; it has changed since that was granted\n" in said
    assert far not in said
    cli("toolset", "disable", "demo")
    assert "not granted" not in cli("validate")[1]


def test_both_are_taken_back_and_leave_no_file(
    root: Path, cli: Callable[..., tuple[int, str]]
) -> None:
    cli("grant", "add", "demo", "process", "maps")
    cli("grant", "add", "demo", "server", "far")

    assert cli("grant", "revoke", "demo", "process", "maps") == (
        0,
        "demo has lost process-maps\n",
    )
    assert check(root) == ["far"]
    assert cli("grant", "revoke", "demo", "server", "far") == (0, "demo has lost server-far\n")
    assert check(root) == []
    assert not (root / "toolsets/state/demo.yaml").exists()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        pytest.param(["process", "mpas"], "no server 'mpas'\n  hint: did you mean 'maps'?", id="unknown"),
        pytest.param(["process", "far"], "is at an address, and no program\n  hint: covalt-git grant add demo server far", id="address"),
        pytest.param(["server", "maps"], "is a program, at no address\n  hint: covalt-git grant add demo process maps", id="program"),
    ],
)  # fmt: skip
def test_what_cannot_be_granted_is_refused_and_nothing_is_written(
    root: Path, cli: Callable[..., tuple[int, str]], args: list[str], said: str
) -> None:
    code, told = cli("grant", "add", "demo", *args)

    assert code == 1
    assert said in told
    assert not (root / "toolsets/state").exists()


def test_hostile_words_of_a_command_are_shown_and_not_obeyed(
    root: Path, cli: Callable[..., tuple[int, str]]
) -> None:
    hostile = r'"\e[2K\rls", "a\nfile: good.py", "x; rm -rf /"'
    rewrite(root, "args: [server/main.py]", f"args: [{hostile}]")

    shown = r"""python '\u{1b}[2K\u{d}ls' 'a\u{a}file: good.py' 'x; rm -rf /'"""
    assert f"  command: {shown}\n" in cli("grant", "add", "demo", "process", "maps")[1]
    assert shown in cli("grant", "list")[1]
    rewrite(root, "rm -rf", "rm -fr")
    assert f"the command was {shown}, and is " in cli("grant", "list")[1]
    assert r"'x; rm -fr /'" in cli("toolset", "show", "demo")[1]
