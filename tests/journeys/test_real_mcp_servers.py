"""MCP servers that others wrote, in a project: asked for their tools, used, killed, changed and stopped.

`make servers` installs them; one project and one set of connections is all that this module has.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from covalt_git.access.grants import GrantNeededError
from covalt_git.calls.running import Follower
from covalt_git.connections.pool import CONNECTIONS
from covalt_git.elicitation.requests import Inquiry, Respondent
from covalt_git.runtime import sandbox_levels
from tests.browser import missing
from tests.calls.conftest import World, make_world
from tests.connections.conftest import processes
from tests.mcp_client import read, resource_uris, talk
from tests.operations_client import Operations
from tests.settling import until

pytestmark = pytest.mark.servers

SERVERS = Path(sys.prefix) / "servers"
NODE = SERVERS / "node_modules" / ".bin"
PYTHON = SERVERS / "python" / "bin"
MANIFEST = f"""\
id: real
name: Real servers
version: "1"
mcp_servers:
  - {{id: time, command: {PYTHON}/mcp-server-time, requires_confirmation: false}}
  - {{id: git, command: {PYTHON}/mcp-server-git, requires_confirmation: false}}
  - id: everything
    command: node
    args: [{NODE}/mcp-server-everything]
    env: {{COLOUR: red}}
    requires_confirmation: false
  - id: filesystem
    command: node
    args: [{NODE}/mcp-server-filesystem, $workspace]
    requires_confirmation: false
  - id: memory
    command: node
    args: [{NODE}/mcp-server-memory]
    env: {{MEMORY_FILE_PATH: $workspace/memory.json}}
    requires_confirmation: false
"""
NAMES = ("time", "git", "everything", "filesystem", "memory")
AT_ONCE = ("time", "everything", "memory")
"""The servers that all tests have; to start each takes most of a second."""


class Real(World):
    """A project that uses all of them, with one chat."""

    def covalt(self, *args: str) -> str:
        done = self.cli(*args)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def result(self, tool: str, /, **args: Any) -> Any:
        outcome = self.call(tool, **args)
        assert outcome.call.status == "success", outcome.error
        return outcome.call.result

    def process(self, server: str) -> int:
        (found,) = running(server)
        return found


def running(server: str) -> list[int]:
    """Return the processes of a server that belong to this one."""
    folder = PYTHON if server in {"time", "git"} else NODE
    return processes(str(folder / f"mcp-server-{server}"))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    if not (SERVERS / ".ready").exists():
        missing("an MCP server", "make servers")
    made = Real(make_world(tmp_path_factory.mktemp("real") / "project").root)
    made.write("real/toolset.yaml", MANIFEST)
    made.workspace.mkdir(exist_ok=True)
    accept(made, AT_ONCE, ("memory:create_entities", "everything:echo"))
    yield made
    CONNECTIONS.close()


@pytest.fixture(scope="module")
def every(world: Real) -> Real:
    """The project with all servers."""
    accept(world, ("git", "filesystem"), ("filesystem:write_file",))
    return world


def accept(world: Real, servers: Iterable[str], free: Iterable[str]) -> None:
    """Grant and accept servers, with some tools that need no confirmation."""
    operate = Operations(world.root)
    for name in servers:
        # In the sandbox. Their packages are outside of the toolset, and these two use the workspace without naming it.
        folders = (str(SERVERS), *["$workspace"] * (name in {"git", "everything"}))
        operate("add_grant", toolset_id="real", kind="server", name=name, folders=folders)
    # What they are started from is pinned and accepted first, then their tools.
    operate("refresh_sources", sources=[f"real/{name}" for name in servers], accept=True)
    for tool in free:
        operate("override_tool", tool_id=tool, requires_confirmation=False)  # some are destructive


@pytest.mark.rest
def test_what_each_of_them_gives_is_in_its_lock_and_accepted(every: Real) -> None:
    world = every
    listed = json.loads(world.covalt("source", "list", "--json"))["sources"]

    assert {one["namespace"]: (one["tools"], one["accepted"]) for one in listed} == {
        "time": (2, 2),
        "git": (12, 12),
        "everything": (16, 15),  # one runs only as a task
        "filesystem": (14, 14),
        "memory": (9, 9),
    }
    assert world.covalt("validate")
    shown = json.loads(world.covalt("tool", "show", "filesystem:write_file", "--json"))
    assert shown["input_schema"]["required"] == ["path", "content"]
    assert shown["annotations"]["destructive"] is True


@pytest.mark.rest
def test_resources_and_prompts_of_a_server_are_passed_on(world: Real) -> None:
    async def say(client: Client) -> None:
        uris = [one for one in await resource_uris(client) if "servers/everything" in one]
        assert len(uris) == 7
        assert (await read(client, uris[0])).text.startswith("# ")
        template = "covalt-git://servers/everything/demo://resource/dynamic/text/"
        assert "Resource 3" in (await read(client, f"{template}3")).text
        listed = {one.name: one for one in (await client.list_prompts()).prompts}
        got: Any = await client.get_prompt("everything.args-prompt", {"city": "Bern"})
        assert "Bern" in got.messages[0].content.text
        assert "everything.simple-prompt" in listed
        result: Any = await client.call_tool("everything.get-resource-links", {"count": 2})
        links = [one for one in result.content if one.type == "resource_link"]
        assert [bool(await read(client, one.uri)) for one in links] == [True, True]

    talk(world.root, say)
    listed = json.loads(world.covalt("source", "list", "everything", "--json"))["sources"]
    assert listed[0]["tasks"] == ["simulate-research-query"]


def test_what_they_return_is_the_result(world: Real) -> None:
    assert world.result("time:convert_time", source_timezone="Asia/Tokyo", time="12:00", target_timezone="UTC")["target"]["datetime"].endswith("T03:00:00+00:00")  # fmt: skip
    assert world.result("everything:echo", message="Grüezi") == "Echo: Grüezi"
    weather = world.result("everything:get-structured-content", location="Chicago")
    assert weather == {"conditions": "Light rain / drizzle", "humidity": 82, "temperature": 36}
    (root,) = [line for line in world.result("everything:get-roots-list").splitlines() if "URI" in line]  # fmt: skip
    assert root.strip() == f"URI: {world.workspace.as_uri()}"


def test_an_image_is_a_file_of_the_commit(world: Real) -> None:
    outcome = world.call("everything:get-tiny-image")

    assert [(one.kind, one.path) for one in outcome.changes] == [("added", "get-tiny-image.png")]
    image = outcome.call.result[1]
    assert image == {"file": "get-tiny-image.png", "media_type": "image/png", "size": 4033}
    assert (world.workspace / "get-tiny-image.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.rest
def test_what_they_write_into_the_workspace_is_in_the_commit_of_the_call(every: Real) -> None:
    world = every
    path = str(world.workspace / "notes.txt")
    wrote = world.call("filesystem:write_file", path=path, content="by a server\n")
    entity = {"name": "Ada", "entityType": "person", "observations": ["likes looms"]}
    # Other tests' memories
    change = "modified" if (world.workspace / "memory.json").exists() else "added"
    kept = world.call("memory:create_entities", entities=[entity])

    assert [(one.kind, one.path) for one in wrote.changes] == [("added", "notes.txt")]
    assert [(one.kind, one.path) for one in kept.changes] == [(change, "memory.json")]
    assert (world.workspace / "notes.txt").read_text() == "by a server\n"
    assert world.result("memory:search_nodes", query="looms")["entities"] == [entity]
    refused = world.call("filesystem:write_file", path="/etc/covalt-git-test", content="x")
    assert refused.error is not None
    assert refused.error.code == "tool_failed"
    assert refused.sandbox == sandbox_levels.level()
    assert "outside allowed directories" in refused.error.message


@pytest.mark.rest
def test_a_person_is_shown_what_they_ask_and_the_answer_is_theirs(world: Real) -> None:
    shown: list[Any] = []

    def show(inquiry: Inquiry) -> None:
        ((key, question),) = inquiry.questions.items()
        shown.append(question.message)
        accepted = {"action": "accept"}
        if question.kind == "form":
            accepted["content"] = {"name": "Ann", "check": True}  # type: ignore[assignment]
        threading.Timer(0.05, inquiry.answer, [key, accepted]).start()

    ann = Follower(respondent=Respondent(frozenset({"form", "url"}), show))
    outcome = world.call("everything:trigger-elicitation-request", follower=ann)
    led = world.call(
        "everything:trigger-url-elicitation", follower=ann, url="https://example.org/pay"
    )
    led_before = world.call(
        "everything:trigger-url-elicitation",
        follower=ann,
        url="https://example.org/sign",
        elicitationId="e1",
        errorPath=True,
    )
    nobody = world.call("everything:trigger-elicitation-request")

    assert shown == [
        "Please provide inputs for the following fields:",
        "Please open the link to complete this action.",
        "Open this link to satisfy the prerequisite, then retry the request.",
        "Please open the link to complete this action.",
    ]
    assert "Name: Ann" in outcome.call.result
    assert led.call.status == led_before.call.status == "success"
    last = [one.record.call for one in world.log()[-4:]]
    asked = [[one.answer for one in call.asked] for call in last if call]
    assert asked == [["accept"], ["accept"], ["accept", "accept"], []]
    assert nobody.error is not None
    assert "there is no user or client that can" in nobody.error.message


def test_kill_9_between_calls_is_not_noticed_by_the_next(world: Real) -> None:
    world.result("memory:read_graph")
    before = world.process("memory")
    os.kill(before, signal.SIGKILL)

    world.result("memory:read_graph")

    assert world.process("memory") != before


def test_a_grant_that_is_taken_back_stops_it(world: Real) -> None:
    kept = {"name": "Ann", "entityType": "person", "observations": []}
    world.result("memory:create_entities", entities=[kept])
    world.result("everything:echo", message="there")
    world.covalt("grant", "revoke", "real", "server", "memory")

    until(lambda: not running("memory"))
    with pytest.raises(GrantNeededError):
        world.call("memory:read_graph")
    assert running("everything")
    folder = ("--folder", str(SERVERS))
    world.covalt("grant", "add", "real", "server", "memory", *folder, "--no-terminal", "test")
    assert world.result("memory:read_graph")["entities"]


@pytest.mark.rest
@pytest.mark.requirement("covalt-6.3.1")
def test_disabling_stops_them_all_and_enabling_brings_them_back(every: Real) -> None:
    world = every
    for tool, args in (("everything:echo", {"message": "x"}), ("memory:read_graph", {})):
        world.result(tool, **args)
    world.covalt("toolset", "disable", "real")

    until(lambda: not any(running(name) for name in NAMES))
    world.covalt("toolset", "enable", "real")
    assert world.result("everything:echo", message="back") == "Echo: back"
