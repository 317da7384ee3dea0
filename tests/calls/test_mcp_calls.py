"""Calls of tools of MCP servers: granted, approved, recorded and cancelled."""

import json
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from covalt_git.access.grants import GrantNeededError
from covalt_git.calls.running import Follower, Installing, Started
from covalt_git.calls.servers.mcp_calls import health
from covalt_git.connections import connection
from covalt_git.connections.pool import CONNECTIONS
from covalt_git.errors import CovaltError
from covalt_git.grants.grants import add_grant, add_grants, revoke
from covalt_git.grants.plans import WantedGrant
from covalt_git.installs.uninstall import uninstall
from covalt_git.models.commit_record import CallRecord
from covalt_git.models.outcomes import Log, Progress
from covalt_git.runtime import sandbox_levels
from covalt_git.trust.own_data import adopt
from tests.calls.conftest import World, code, make_world
from tests.examples import rest
from tests.operations_client import Operations
from tests.settling import until
from tests.taking_servers import take
from tests.trusting import use_config

SERVER = Path(__file__).parents[2] / "fixtures" / "servers" / "first_era.py"
SECRET = "canary-71c04d/+="
PROGRAM = f"command: {sys.executable}, args: [{SERVER}]"
FREE = "requires_confirmation: false"
CONFIG = """\
default_role: owner
roles:
  owner: {admin: true}
  narrow: {allow: ["first.add"]}
"""
SERVERS = ("first", "careful", "keyed")


def manifest(folder: Path) -> str:
    """Return the toolset: one program three times, each declared in another way."""
    return f"""\
id: demo
name: Demo
version: "1"
secrets: [WEB_KEY]
mcp_servers:
  - {{id: first, {PROGRAM}, cwd: tools, env: {{SAID: {folder}/said.txt}}, {FREE}}}
  - {{id: careful, {PROGRAM}}}
  - {{id: keyed, {PROGRAM}, env: {{KEY: "${{WEB_KEY}}"}}, {FREE}}}
"""


def result(world: World, tool: str, /, **args: Any) -> Any:
    outcome = world.call(tool, **args)
    assert outcome.error is None
    return outcome.call.result


def error(record: CallRecord) -> tuple[str, str]:
    assert record.error is not None
    return record.error.code, record.error.message


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("servers")


@pytest.fixture(scope="module")
def world(folder: Path) -> Iterator[World]:
    """A project whose servers are granted and whose tools are accepted, for all tests of the module."""
    with pytest.MonkeyPatch.context() as patch:
        use_config(patch, folder / "config")
        patch.setenv("WEB_KEY", SECRET)
        made = make_world(folder / "project")
        made.configure(CONFIG)
        made.write("demo/toolset.yaml", manifest(folder))
        for server in SERVERS:
            add_grant(made.root, "demo", "process", server, by="me")
            take(made.root, "demo", server)
        made.project().chats.new("c2")
        yield made
        CONNECTIONS.close()


# Before a call


@pytest.mark.requirement("covalt-1.5.command", "covalt-1.5.cwd")
def test_a_server_runs_its_command_in_its_working_directory(world: World) -> None:
    folder = Path(result(world, "first:folder"))

    assert folder.name == "tools"
    assert (folder.parent / "toolset.yaml").read_text(encoding="utf-8").startswith("id: demo\n")


@pytest.mark.rest
def test_a_script_waits_at_a_question_of_a_server_which_is_asked_again_with_the_answer(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    operate = Operations(world.root)
    sent = {"script": "tools.first.name_person()"}
    waiting = operate("call_tool", chat_id="c1", tool_id="workspace:run_script", args=sent)
    which = {"execution_id": waiting["execution_id"]}
    assert waiting["result"]["paused"]["message"] == "first:name_person asks: Who?"
    (key,) = operate("get_approval", **which)["questions"]

    answer = {"action": "accept", "content": {"name": "Ann"}}
    operate("approve_call", **which, answers={key: answer})

    ended = operate("get_script", script_id=waiting["id"])
    assert json.loads(ended["result"]["value"]) == answer
    # The stopped call has left no request behind: the server answers the next one.
    assert result(world, "first:add", a=2, b=3) == "5"
    assert [entry for entry in caplog.records if entry.levelname == "ERROR"] == []


def test_a_call_runs_once_it_is_approved_while_its_server_is_granted(world: World) -> None:
    waiting = world.ask("careful:write")
    assert not (world.workspace / "written.txt").exists()
    revoke(world.root, "demo", "process-careful")
    with pytest.raises(GrantNeededError):
        world.approve(waiting)
    add_grant(world.root, "demo", "process", "careful", by="me")

    done = world.approve(waiting)

    assert done.call.result == "written"
    assert [(one.kind, one.path) for one in done.changes] == [("added", "written.txt")]
    assert world.git("show", "main:written.txt") == "by the server\n"
    assert world.record().execution_id == waiting


def test_a_running_server_ends_when_its_user_withdraws_the_trust(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "TICK_S", 0.02)
        use_config(patch, tmp_path / "config", trusts=False)
        world = make_world(tmp_path / "project")
        adopt(world.root)
        world.write("demo/toolset.yaml", manifest(tmp_path))
        add_grant(world.root, "demo", "process", "first", by="me")
        world.configure(CONFIG)
        owner = Operations(world.root, role="owner")
        owner("trust_project")
        take(world.root, "demo", "first")
        owner("trust_project")
        assert result(world, "first:add", a=1, b=2) == "3"
        assert [server.state for server in health(world.root)] == ["ready"]

        owner("distrust_project")

        until(lambda: [server.state for server in health(world.root)] == ["stopped"])
        CONNECTIONS.close()


@pytest.mark.parametrize(
    ("old", "new"),
    [("", ""), ("id: keyed, ", "id: keyed, cwd: tools, "), ("KEY:", "OTHER:")],
    ids=["revoked", "another-folder", "another-variable"],
)
def test_a_server_starts_only_as_granted(world: World, folder: Path, old: str, new: str) -> None:
    assert result(world, "keyed:add", a=1, b=1) == "2"
    if old:
        world.edit("demo/toolset.yaml", old, new)
    else:
        revoke(world.root, "demo", "process-keyed")
    try:
        with pytest.raises(GrantNeededError) as caught:
            world.call("keyed:add", chat_id="c2", a=1, b=1)
    finally:
        world.write("demo/toolset.yaml", manifest(folder))
        add_grant(world.root, "demo", "process", "keyed", by="me")

    kind = "--again" if old else "--requested"
    assert caught.value.hint == f"covalt-git grant add demo {kind}"
    assert "c2" not in {one.chat_id for one in CONNECTIONS.health(world.root)}


# Results


def test_texts_files_links_and_structured_content_are_results(world: World) -> None:
    text, image, link = result(world, "first:mixed")

    assert text == "both"
    assert image["file"].startswith("mixed")
    assert link == {"uri": "https://example.org/a", "name": "a"}
    file = {"file": "today.md", "size": 8, "media_type": "text/markdown"}
    assert result(world, "first:resource") == {**file, "uri": "notes:///a/today.md"}
    assert (world.workspace / "today.md").read_text() == "# Today\n"
    assert result(world, "first:structure") == {"answer": None}


@pytest.mark.parametrize(
    ("tool", "args", "expected", "message", "value"),
    [
        rest("fail", {}, "tool_failed", "no such city", None),
        ("fail", {"structure": True}, "tool_failed", "no such city", {"city": None}),
        ("protocol_error", {}, "server_error", "the moon is wrong (-32001)", None),
        ("die", {}, "server_ended", "it was all too much", None),
        rest(
            "die", {}, "server_ended", "during the request; the tool may have had its effect;", None
        ),
    ],
)
def test_an_error_of_the_tool_or_server_fails_only_its_own_call(
    world: World, tool: str, args: dict[str, Any], expected: str, message: str, value: Any
) -> None:
    assert world.call(f"first:{tool}", **args).call.status == "error"

    assert error(world.record())[0] == expected
    assert message in error(world.record())[1]
    assert world.record().result == value
    assert result(world, "first:add", a=1, b=1) == "2"


# While it runs


def test_progress_and_logs_are_reported_and_cancelling_ends_the_call(
    world: World, folder: Path
) -> None:
    events: list[Any] = []

    def report(event: Any) -> None:
        if not isinstance(
            event, Installing
        ):  # the server starts, unless an earlier test has started it
            events.append(event)
        if isinstance(event, Progress) and event.done == 2:
            follower.cancel.set()

    follower = Follower(report)
    outcome = world.call("first:slow", follower=follower)

    assert code(outcome) == "cancelled"
    assert isinstance(events[0], Started)
    assert events[1:3] == [Log("info", "it begins"), Progress(0, 100, "on")]
    assert error(world.record())[0] == "cancelled"
    assert world.record().output == "it begins\n"
    until((folder / "said.txt").exists)


# Secrets


@pytest.mark.requirement("covalt-6.2.runtime")
def test_a_server_gets_its_declared_variables_and_secrets_which_are_not_stored(
    world: World,
) -> None:
    first, keyed = (
        json.loads(result(world, f"{server}:environment")) for server in ("first", "keyed")
    )

    assert "WEB_KEY" not in first
    assert keyed["KEY"] == "***"
    assert SECRET not in world.git("log", "--format=%B", "main")
    assert SECRET not in (world.root / "toolsets/state/demo.yaml").read_text()


@pytest.mark.requirement("covalt-6.3.1")
def test_uninstalling_a_toolset_ends_its_servers(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "TICK_S", 0.02)
    here = World(Path(shutil.copytree(world.root, tmp_path / "project", symlinks=True)))
    assert result(here, "first:add", a=1, b=1) == "2"
    assert [one.state for one in CONNECTIONS.health(here.root)] == ["ready"]

    uninstall(here.root, "demo", force=True)

    until(lambda: "ready" not in {one.state for one in CONNECTIONS.health(here.root)})


# In the sandbox


def test_a_program_runs_in_the_sandbox_with_what_its_grant_names_and_records_the_level(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_config(monkeypatch, tmp_path / "config")
    monkeypatch.setenv("WEB_KEY", SECRET)
    world = make_world(tmp_path / "project")
    world.configure(CONFIG)
    said = tmp_path / "said"
    said.mkdir()
    world.write("demo/toolset.yaml", manifest(said))

    def granted(*folders: str, secrets: tuple[str, ...] = ()) -> None:
        grant = WantedGrant("server", "first", folders=folders, secrets=secrets)
        add_grants(world.root, "demo", lambda _: [grant], by="me")

    world.write("demo/tools/empty.txt", "")
    granted(f"{SERVER.parent}", f"{said}:rw", secrets=("WEB_KEY",))
    take(world.root, "demo", "first")
    outcome = world.call("first:add", a=2, b=3)
    assert outcome.call.result == "5"
    assert outcome.sandbox == sandbox_levels.level()

    # A folder that is granted later is added; a missing folder is an error with its name.
    granted(f"{tmp_path}/missing")
    with pytest.raises(CovaltError, match="/missing' does not exist"):
        world.call("first:add", a=2, b=3)

    add_grant(world.root, "demo", "unsandboxed", "first", by="me")
    unsandboxed = world.call("first:add", a=2, b=3)
    assert unsandboxed.sandbox == "process"
    monkeypatch.setattr(sandbox_levels, "level", lambda: "process")
    revoke(world.root, "demo", "unsandboxed-first")
    granted(f"{SERVER.parent}", f"{said}:rw")
    with pytest.raises(sandbox_levels.SandboxNeededError):
        world.call("first:add", a=2, b=3)
    CONNECTIONS.close()


RUNNING = SERVER.with_name("running.py")
RUNS = f"""\
id: demo
name: Demo
version: "1"
secrets: [WEB_KEY, OTHER_KEY]
mcp_servers:
  - {{id: runs, command: {sys.executable}, args: [server/running.py, $workspace], {FREE}}}
"""
FETCH = "import urllib.request as r; r.urlopen('http://api.evil.example/')"
DIRECT = "import socket; socket.create_connection(('api.evil.example', 443))"


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A project with a server in the sandbox that executes the Python of its calls."""
    use_config(monkeypatch, tmp_path / "config")
    monkeypatch.setenv("WEB_KEY", SECRET)
    monkeypatch.setenv("OTHER_KEY", "not granted")
    world = make_world(tmp_path / "project")
    world.configure(CONFIG + "limits: {memory_mb: 200, workspace_mb: 2}\n")
    world.write("demo/toolset.yaml", RUNS)
    world.write("demo/server/running.py", RUNNING.read_text(encoding="utf-8"))
    grant = WantedGrant("server", "runs", secrets=("WEB_KEY",))
    add_grants(world.root, "demo", lambda _: [grant], by="me")
    take(world.root, "demo", "runs")
    yield world
    CONNECTIONS.close()


def test_a_granted_secret_arrives_as_a_variable_and_no_other_does(runs: World) -> None:
    code = "import os; print(sorted(name for name in os.environ if 'KEY' in name), os.environ['WEB_KEY'])"
    assert result(runs, "runs:run", code=code) == "['WEB_KEY'] ***\n"


@pytest.mark.skipif(sandbox_levels.level() != "full", reason="this machine has no level 'full'")
def test_a_refused_host_is_named_with_the_command_that_grants_it(runs: World) -> None:
    outcome = runs.call("runs:run", code=FETCH)
    assert outcome.error is not None
    assert "http://api.evil.example was not granted to this toolset" in outcome.output
    observe = "covalt-git source observe demo/runs --call run"
    assert f"{observe} {shlex.quote(json.dumps({'code': FETCH}))};" in outcome.error.hint
    assert outcome.error.hint.endswith("--host http://api.evil.example")
    # The grant of a host is for its port.
    refused = "http://127.0.0.1:8765 was not granted to this toolset"
    code = f"print('http://docs.example'); raise OSError({refused!r})"
    outcome = runs.call("runs:run", code=code)
    assert outcome.error is not None
    assert outcome.error.hint.endswith("--host 127.0.0.1:8765")
    # A client that ignores the proxy cannot look the name up.
    outcome = runs.call("runs:run", code=DIRECT)
    assert outcome.error is not None
    assert outcome.error.hint.endswith("covalt-git grant add demo server runs --host HOST")
    message = "throw new Error('getaddrinfo ENOTFOUND api.evil.example')"
    outcome = runs.call("runs:run", code=f"raise OSError({message!r})")
    assert outcome.error is not None
    assert outcome.error.hint.endswith("grant add demo server runs --host api.evil.example")


@pytest.mark.rest
@pytest.mark.skipif(sandbox_levels.level() != "full", reason="this machine has no level 'full'")
def test_a_refused_host_of_this_machine_is_noted_and_a_missing_file_leads_to_an_observation(
    runs: World,
) -> None:
    outcome = runs.call("runs:run", code=FETCH.replace("api.evil.example", "localhost:9"))
    assert outcome.error is not None
    assert "note: in the sandbox, localhost is not that of this machine" in outcome.output
    missing = "open('/srv/no-such-file')"
    outcome = runs.call("runs:run", code=missing)
    assert outcome.error is not None
    assert outcome.error.hint.endswith(
        "covalt-git source observe demo/runs --call run"
        f" {shlex.quote(json.dumps({'code': missing}))}"
    )
    assert "localhost" not in outcome.output
    outcome = runs.call("runs:run", code=f"{missing} # {'long' * 200}")
    assert outcome.error is not None
    assert outcome.error.hint.endswith("--call run JSON")


def test_a_refused_system_call_is_named_in_the_output_of_the_call(runs: World) -> None:
    outcome = runs.call("runs:run", code="import ctypes; ctypes.CDLL(None).ptrace(0, 0, 0, 0)")
    assert "note: the sandbox refused the system call ptrace" in outcome.output


def test_a_call_whose_server_exceeds_a_limit_fails_with_the_name_of_the_limit(
    runs: World,
) -> None:
    waste = "kept = [bytearray(8 << 20) for _ in range(50)]\nimport time; time.sleep(20)"
    outcome = runs.call("runs:run", code=waste)
    assert outcome.error is not None
    assert outcome.error.code == "server_ended"
    assert "more than 200 MiB of memory, so it was ended: raise limits.memory_mb" in (
        outcome.error.message
    )
    write = "import sys; open(sys.argv[1] + '/large', 'wb').write(b'a' * (3 << 20))"
    outcome = runs.call("runs:run", code=f"import sys\n{write}")
    assert outcome.error is not None
    small = (
        "import sys\nfor n in range(3): open(f'{sys.argv[1]}/{n}', 'wb').write(b'a' * (1 << 20))"
    )
    outcome = runs.call("runs:run", code=small)
    assert outcome.error is not None
    assert outcome.error.code == "limit_workspace"


def test_a_server_cannot_replace_its_own_files_nor_those_of_the_next_start(runs: World) -> None:
    own = "import pathlib\nfor path in pathlib.Path(__import__('sys').argv[0]).parent.iterdir():"
    outcome = runs.call("runs:run", code=f"{own} path.write_text('x = 1')")
    assert outcome.error is not None
    assert "Read-only file system" in outcome.error.message or "denied" in outcome.error.message
    assert result(runs, "runs:run", code="print('as before')").strip() == "as before"


def test_a_program_outside_of_the_toolset_fails_with_the_grant_of_its_folder(runs: World) -> None:
    outside = runs.root.parent / "elsewhere"
    outside.mkdir()
    (outside / "server.py").write_text("print(1)")
    runs.edit("demo/toolset.yaml", "server/running.py, $workspace", f"{outside}/server.py")
    add_grant(runs.root, "demo", "server", "runs", by="me")

    with pytest.raises(CovaltError) as caught:
        take(runs.root, "demo", "runs")

    assert caught.value.hint.endswith(f"covalt-git grant add demo server runs --folder {outside}")
    # A package of Node loads others beside it.
    packages = outside / "node_modules"
    (packages / ".bin").mkdir(parents=True)
    (packages / ".bin/served").write_text("print(1)")
    runs.edit("demo/toolset.yaml", f"{outside}/server.py", f"{packages}/.bin/served")
    add_grant(runs.root, "demo", "server", "runs", by="me")
    with pytest.raises(CovaltError) as caught:
        take(runs.root, "demo", "runs")
    assert caught.value.hint.endswith(f"--folder {packages}")
