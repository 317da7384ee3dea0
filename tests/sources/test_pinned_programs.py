"""What MCP servers are started from: a program runs once it is accepted, until another is accepted."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from covalt_git.calls.servers.server_programs import (
    NotPinnedError,
    ProgramChangedError,
    pinned_program,
)
from covalt_git.cli import main
from covalt_git.connections.pool import CONNECTIONS
from covalt_git.errors import UnknownNameError
from covalt_git.grants.grants import add_grant, add_grants
from covalt_git.grants.plans import WantedGrant
from covalt_git.manifests.state_files import locked_packages
from covalt_git.models.sources.tool_lock import PROGRAM
from covalt_git.runtime import sandbox_levels
from covalt_git.runtime.server_packages import cache
from covalt_git.runtime.server_packages.steps import Installer
from covalt_git.sources.refresh import find_source
from covalt_git.system.remove_tree import remove_tree
from covalt_git.toolsets.toolset import read_toolset
from covalt_git.toolsets.toolset_copies import ToolsetCopy
from tests.calls.conftest import World, make_world
from tests.operations_client import Operations
from tests.package_registry import Registry, used_registry

SERVER = """#!{python}
import json, sys
for line in sys.stdin:
    sent = json.loads(line)
    if "id" not in sent:
        continue
    answers = {{
        "initialize": {{"protocolVersion": "2025-06-18", "capabilities": {{"tools": {{}}}}, "serverInfo": {{"name": "s", "version": "1"}}}},
        "tools/list": {{"tools": [{{"name": "said", "inputSchema": {{"type": "object"}}}}]}},
        "tools/call": {{"content": [{{"type": "text", "text": "one"}}]}},
    }}
    method = sent["method"]
    answer = {{"result": answers[method]}} if method in answers else {{"error": {{"code": -32601, "message": "?"}}}}
    print(json.dumps({{"jsonrpc": "2.0", "id": sent["id"], **answer}}), flush=True)
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = make_world(tmp_path / "project")
    yield world
    CONNECTIONS.close()


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    if sandbox_levels.level() != "full" or shutil.which("npm") is None:
        pytest.skip("packages of npm are installed in the sandbox level full")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with used_registry(monkeypatch) as registry:
        yield registry


def declare(world: World, command: str, args: str = "[]") -> None:
    text = f"id: gear\nname: Gear\nversion: '1'\nmcp_servers:\n  - {{id: said, command: {command}, args: {args}, requires_confirmation: false}}\n"
    world.write("gear/toolset.yaml", text)


def refreshed(world: World, **request: Any) -> Any:
    (outcome,) = Operations(world.root)("refresh_sources", sources=["gear/said"], **request)[
        "sources"
    ]
    return outcome


def accept(world: World) -> None:
    source = find_source(world.root, "gear", "said")
    Operations(world.root)(
        "accept_tools",
        toolset_id="gear",
        namespace="said",
        tools={one.name: one.digest for one in source.to_accept},
        reason="a test",
    )


def said(world: World) -> Any:
    outcome = world.call("said:said")
    assert outcome.error is None, outcome.error
    return outcome.call.result


def test_packages_run_only_once_they_are_accepted_and_until_others_are_accepted(
    world: World, registry: Registry
) -> None:
    registry.node_server("1.0.0", says="one")
    declare(world, "npx", "[-y, said]")
    add_grants(world.root, "gear", lambda _: [WantedGrant("server", "said")], by="me")
    # Nothing was started yet, so the list has the program and no tools.
    first = refreshed(world)
    assert [(one["name"], one["kind"]) for one in first["refreshed"]["source"]["to_accept"]] == [
        (PROGRAM, "new")
    ]
    assert first["refreshed"]["source"]["tools"] == 0
    accept(world)
    assert refreshed(world, pinned=True)["refreshed"]["source"]["tools"] == 1
    accept(world)
    assert said(world) == "one"

    registry.node_server("1.1.0", says="two")
    assert refreshed(world, check=True)["failed"]
    second = refreshed(world)

    (change,) = second["refreshed"]["source"]["to_accept"]
    assert (second["failed"], change["name"], change["kind"]) == (True, PROGRAM, "changed")
    (packages,) = [part for part in change["parts"] if part["name"] == "packages"]
    assert [row.split(" (")[0] for row in packages["before"]] == ["said 1.0.0", "words 1.0.0"]
    assert [row.split(" (")[0] for row in packages["after"]] == ["said 1.1.0", "words 1.1.0"]
    CONNECTIONS.close()
    # Also on a machine without the cache, whose registry still has the accepted version.
    remove_tree(cache.cache_folder())
    assert said(world) == "one"
    accept(world)
    CONNECTIONS.close()
    assert said(world) == "two"
    assert not refreshed(world)["failed"]


@pytest.mark.rest
def test_accepting_at_once_lists_the_tools_after_the_program(
    world: World, registry: Registry
) -> None:
    registry.node_server("1.0.0")
    declare(world, "npx", "[-y, said]")
    add_grants(world.root, "gear", lambda _: [WantedGrant("server", "said")], by="me")

    outcome = refreshed(world, accept=True, reason="a test")

    assert (outcome["failed"], outcome["refreshed"]["source"]["accepted"]) == (False, 1)
    assert said(world) == "one"


@pytest.mark.rest
def test_the_workspace_as_the_first_argument_of_a_package_is_no_script(
    world: World, registry: Registry
) -> None:
    registry.node_server("1.0.0")
    declare(world, "npx", "[-y, said, $workspace]")
    add_grants(world.root, "gear", lambda _: [WantedGrant("server", "said")], by="me")

    outcome = refreshed(world, accept=True, reason="a test")

    assert (outcome["failed"], outcome["refreshed"]["source"]["accepted"]) == (False, 1)
    assert said(world) == "one"


def test_packages_without_an_accepted_lock_are_not_started(world: World) -> None:
    declare(world, "uvx", "[said]")
    for grant in ("server", "unsandboxed"):
        add_grant(world.root, "gear", grant, "said", by="me")
        toolset = read_toolset(world.root, "gear")
        assert toolset.manifest is not None
        with pytest.raises(NotPinnedError) as caught:
            pinned_program(toolset, toolset.manifest.mcp_servers[0])
        assert caught.value.hint == "covalt-git source refresh gear/said"


def test_a_lock_that_is_not_the_accepted_one_starts_no_packages(
    world: World, registry: Registry
) -> None:
    registry.node_server("1.0.0")
    declare(world, "npx", "[-y, said]")
    add_grants(world.root, "gear", lambda _: [WantedGrant("server", "said")], by="me")
    refreshed(world, accept=True, reason="a test")
    lock = world.root / "toolsets/locks/said.yaml"
    accepted = lock.read_text(encoding="utf-8")
    edited = accepted.replace("node_modules/said/cli.js", "node_modules/words/index.js")

    def start() -> None:
        toolset = read_toolset(world.root, "gear")
        assert toolset.manifest is not None
        pinned_program(toolset, toolset.manifest.mcp_servers[0])

    start()
    assert edited != accepted
    lock.write_text(edited, encoding="utf-8")
    with pytest.raises(NotPinnedError):
        start()
    lock.write_text(accepted, encoding="utf-8")
    start()
    declare(world, "npx", "[-y, other]")
    with pytest.raises(NotPinnedError):
        start()


def test_a_program_of_the_system_is_pinned_by_its_path_and_digest(
    world: World, tmp_path: Path
) -> None:
    program = tmp_path / "said-server"
    program.write_text(SERVER.format(python="/usr/bin/env python3"), encoding="utf-8")
    program.chmod(0o755)
    declare(world, str(program))
    add_grant(world.root, "gear", "unsandboxed", "said", by="me")
    refreshed(world, accept=True, reason="a test")
    assert said(world) == "one"

    CONNECTIONS.close()
    program.write_text(program.read_text(encoding="utf-8") + "# updated\n", encoding="utf-8")
    with pytest.raises(ProgramChangedError, match="has changed"):
        world.call("said:said")
    (change,) = refreshed(world)["refreshed"]["source"]["to_accept"]
    assert (change["name"], [part["name"] for part in change["parts"]]) == (PROGRAM, ["sha256"])
    accept(world)
    assert said(world) == "one"


def test_after_its_program_is_accepted_a_server_still_has_to_be_asked_for_its_tools(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "said-server"
    program.write_text(SERVER.format(python="/usr/bin/env python3"), encoding="utf-8")
    program.chmod(0o755)
    declare(world, str(program))
    add_grant(world.root, "gear", "unsandboxed", "said", by="me")
    refreshed(world)
    (source,) = Operations(world.root)("list_sources")["sources"]
    assert source["notes"] == ["program to accept"]
    with pytest.raises(SystemExit):
        main(["-C", str(world.root), "source", "list"])
    row = capsys.readouterr().out.splitlines()[1]
    assert row.split() == ["gear/said", *"-----", "program", "to", "accept"]
    accept(world)

    with pytest.raises(UnknownNameError, match="was not asked for its tools yet") as refused:
        world.call("said:said")
    assert refused.value.hint == "covalt-git source refresh gear/said"
    (source,) = Operations(world.root)("compare_sources")["sources"]
    assert (source["asked"], source["to_accept"]) == (False, [])

    assert refreshed(world)["refreshed"]["source"]["asked"]


@pytest.mark.rest
def test_installations_that_no_lock_has_are_removed_unless_they_run(
    world: World, registry: Registry
) -> None:
    operate = Operations(world.root)

    def removed(*, now: bool = True) -> int:
        result = operate("collect_all_garbage", now=now)
        assert (result["removed_size"] > 0) == bool(result["removed_installations"])
        return int(result["removed_installations"])

    def installations() -> int:
        return sum(path.is_dir() for path in cache.cache_folder().iterdir())

    registry.node_server("1.0.0", says="one")
    declare(world, "npx", "[-y, said]")
    add_grants(world.root, "gear", lambda _: [WantedGrant("server", "said")], by="me")
    for _ in range(2):
        refreshed(world)
        accept(world)
    assert said(world) == "one"
    (old,) = locked_packages(world.root)
    registry.node_server("1.1.0", says="two")
    refreshed(world)
    # The accepted packages and the new ones are both of the lock.
    assert (removed(), installations()) == (0, 2)
    CONNECTIONS.close()
    accept(world)

    installer = Installer("gear/said", ToolsetCopy.of(read_toolset(world.root, "gear")))
    with cache.held(old, installer):
        assert (removed(), installations()) == (0, 2)
    assert (removed(now=False), installations()) == (0, 2)  # it was used in the last 30 days
    assert (removed(), installations()) == (1, 1)
    assert said(world) == "two"
