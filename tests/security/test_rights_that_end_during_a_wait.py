"""A call or operation that waits for its chat is decided when it begins, not when it was requested."""

import json
import threading
from collections.abc import Callable
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from covalt_git.calls.engine import CallRequest, Engine
from covalt_git.calls.outcomes import CallOutcome
from covalt_git.calls.replay import ReplayNeedsApprovalError, replay
from covalt_git.calls.running import Follower
from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.gateway import approvals
from covalt_git.manifests.project_config import read_config
from covalt_git.operations.calls.calls import make_call
from covalt_git.operations.context import Context
from covalt_git.operations.registry import every_operation
from covalt_git.project import Project
from covalt_git.system import file_lock
from covalt_git.toolsets.permissions import permissions_of
from covalt_git.toolsets.toolset import read_toolset
from covalt_git.trust import Consents, NotTrustedError
from covalt_git.trust.own_data import adopt
from covalt_git.workspaces.writing import writing
from tests.calls.conftest import World
from tests.examples import rest
from tests.operations_client import Operations
from tests.settling import until, until_one_waits
from tests.trusting import use_config

ROLES = """\
roles:
  bot: {allow: ["**"], approve: ["**"], chats: manage}
  owner: {admin: true}
"""
DENIED = ROLES.replace('approve: ["**"], chats: manage', 'deny: ["demo.**", "workspace.**"]')
REQUIRED = f'{ROLES}approvals: [{{pattern: "**", require: true}}]\n'
ADD = CallRequest("demo:add", {"text": "x"})


def during_the_wait(
    world: World, change: Callable[[], object], act: Callable[[Context], Any], role: str = "bot"
) -> Any:
    """Return the result of an act that waits for the chat while something changes, or its error."""
    waits = threading.Event()
    ended: list[Any] = []

    def perform() -> None:
        opened = partial(Project.open, world.root, role=role)
        with Context(world.root, opened, waiting=lambda _: waits.set()) as context:
            try:
                ended.append(act(context))
            except CovaltError as error:
                ended.append(error)

    thread = threading.Thread(target=perform)
    with world.project("owner").chats.open("c1") as chat, writing(chat, by="local"):
        thread.start()
        assert waits.wait(20)
        change()
    thread.join(60)
    return ended[0]


def add(context: Context) -> CallOutcome:
    return context.engine().call(context.chat("c1"), ADD)


def test_a_role_that_is_denied_a_tool_while_its_call_waits_runs_nothing(world: World) -> None:
    world.configure(ROLES)

    error = during_the_wait(world, lambda: world.configure(DENIED), add)

    assert isinstance(error, UnknownNameError)
    assert not world.runs()


def test_a_rule_that_is_written_while_a_call_waits_applies_to_it(world: World) -> None:
    world.configure(ROLES)

    outcome = during_the_wait(world, lambda: world.configure(REQUIRED), add)

    assert outcome.approval.reasons == ("rule ** requires it",)
    assert not world.runs()


def test_a_call_that_waits_while_trust_is_withdrawn_runs_nothing(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_config(monkeypatch, tmp_path / "config", trusts=False)
    world.configure(ROLES)
    digest = read_toolset(world.root, "demo").digest
    world.write(
        "state/demo.yaml",
        "grants:\n  network:\n    kind: network\n    hosts: [a.example]\n"
        f"    digest: {digest}\n    granted_at: 2026-01-01T00:00:00Z\n    granted_by: local\n",
    )
    consents = Consents.of(world.root)
    adopt(world.root)
    permissions = permissions_of(read_toolset(world.root, "demo"), read_config(world.root))
    consents.trust(permissions)
    assert add_now(world).call.status == "success"

    error = during_the_wait(world, lambda: consents.distrust(permissions), add)

    assert isinstance(error, NotTrustedError)
    assert world.runs() == 1


def add_now(world: World) -> CallOutcome:
    with Context(world.root, partial(Project.open, world.root, role="bot")) as context:
        return add(context)


WITH_SECRETS = """\
id: ev
name: Ev
version: "1"
secrets: [KEY]
mcp_servers:
  - {{id: disk, command: sh, args: ["-c", "touch {ran}; cat"], env: {{KEY: "${{KEY}}"}}}}
tools:
  - {{id: use, entrypoint: "tools:use"}}
  - {{id: get, http: {{url: "http://127.0.0.1:{port}/x", headers: {{X-Key: "${{KEY}}"}}}}}}
"""


class Recorder(BaseHTTPRequestHandler):
    """A host that leaves a file when it gets a request."""

    def __init__(self, ran: Path, *request: Any) -> None:
        self._ran = ran
        super().__init__(*request)

    def do_GET(self) -> None:
        self._ran.touch()
        self.send_error(500)


@pytest.mark.parametrize(
    ("operation", "fields"),
    [
        ("call_tool", {"chat_id": "c1", "tool_id": "ev:use", "args": {}}),
        rest("call_tool", {"chat_id": "c1", "tool_id": "ev:get", "args": {}}),
        ("refresh_source", {"toolset_id": "ev", "namespace": "disk"}),
    ],
)
def test_a_tool_whose_trust_is_withdrawn_while_a_command_prints_its_secret_does_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str, fields: dict[str, Any]
) -> None:
    use_config(monkeypatch, tmp_path / "config", trusts=False)
    root, started, ran = tmp_path / "project", tmp_path / "started", tmp_path / "ran"
    (root / "toolsets/ev").mkdir(parents=True)
    (root / "toolsets/ev/tools.py").write_text(
        "from pathlib import Path\n\n\ndef use(workspace: Path) -> str:\n"
        '    """Use the secret."""\n    (workspace / "ran").touch()\n    return "ran"\n'
    )
    script = f"touch {started}; while [ -e {started} ]; do sleep 0.05; done; echo {{name}}"
    command = json.dumps(["/bin/sh", "-c", script])
    (root / "covalt.yaml").write_text(f"version: 1\nsecret_command: {command}\n")
    operate = Operations(root)
    ended: list[Any] = []

    def perform() -> None:
        try:
            ended.append(operate(operation, **fields))
        except CovaltError as error:
            ended.append(error.message)

    with HTTPServer(("127.0.0.1", 0), partial(Recorder, ran)) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        manifest = WITH_SECRETS.format(ran=ran, port=server.server_port)
        (root / "toolsets/ev/toolset.yaml").write_text(manifest)
        host = f"http://127.0.0.1:{server.server_port}"
        operate("add_grant", toolset_id="ev", kind="network", hosts=(host,))
        operate("add_grant", toolset_id="ev", kind="secret", name="KEY", hosts=(host,))
        operate("add_grant", toolset_id="ev", kind="process", name="disk")
        operate("trust_project")
        operate("create_chat", chat_id="c1")
        thread = threading.Thread(target=perform)
        thread.start()
        until(started.exists)
        Consents.of(root).withdraw_all()  # the secret_command stays allowed
        started.unlink()
        thread.join(60)
        server.shutdown()

    assert "not trusted on this machine" in json.dumps(ended[0])
    assert not ran.exists()
    assert not (root / "data/chats/c1/workspace/ran").exists()


@pytest.mark.parametrize("decision", ["approve", "deny"])
def test_a_reviewer_who_loses_the_right_while_the_decision_waits_decides_nothing(
    world: World, decision: str
) -> None:
    world.configure(ROLES)
    execution_id = world.ask(role="owner", text="x")
    lost = ROLES.replace('approve: ["**"], ', "")

    def decide(context: Context) -> object:
        return getattr(context.approvals(), decision)(execution_id)

    error = during_the_wait(world, lambda: world.configure(lost), decide)

    assert error.code == "may_not_approve"
    assert world.approval(execution_id).state == "pending"
    assert not world.runs()


@pytest.mark.parametrize("approved", [True, False])
def test_an_agent_whose_role_may_approve_its_own_calls_no_longer_decides_nothing(
    world: World, *, approved: bool
) -> None:
    own = 'approve: ["**"], approve_own: true,'
    world.configure(ROLES.replace('approve: ["**"],', own))
    execution_id = world.ask(role="bot", text="x")

    ended: list[Any] = []

    def decide() -> None:
        project = Project.open(world.root, role="bot")
        try:
            ended.append(approvals.decide(project, execution_id, Follower(), approved=approved))
        except CovaltError as error:
            ended.append(error)

    thread = threading.Thread(target=decide)
    with world.project("owner").chats.open("c1") as chat, writing(chat, by="local"):
        thread.start()
        until(world.has_next_writer)
        world.configure(ROLES)
    thread.join(60)

    assert ended[0].code == "may_not_approve"
    assert world.approval(execution_id).state == "pending"


def test_an_approved_call_of_a_role_that_is_denied_the_tool_meanwhile_runs_nothing(
    world: World,
) -> None:
    world.configure(ROLES)
    execution_id = world.ask(role="bot", text="x")

    error = during_the_wait(
        world,
        lambda: world.configure(DENIED),
        lambda context: context.approvals().approve(execution_id),
        role="owner",
    )

    assert error.code == "no_longer_callable"
    assert not world.runs()


def test_a_replay_is_decided_after_the_wait(world: World) -> None:
    world.configure(ROLES)
    call_id = add_now(world).call.id

    def again(context: Context) -> object:
        engine: Engine = context.engine()
        return replay(engine, context.chat("c1"), call_id)

    error = during_the_wait(world, lambda: world.configure(REQUIRED), again)

    assert isinstance(error, ReplayNeedsApprovalError)
    assert world.runs() == 1


@pytest.mark.parametrize(
    ("name", "request_"),
    [
        ("create_branch", {"name": "idea"}),
        ("update_workspace_file", {"path": "a.txt", "content": "x"}),
        ("rename_chat", {"title": "x"}),
        ("delete_chat", {}),
    ],
)
def test_an_operation_of_a_role_that_loses_the_right_meanwhile_changes_nothing(
    world: World, name: str, request_: dict[str, Any]
) -> None:
    world.configure(ROLES)
    before = world.refs()

    error = during_the_wait(
        world,
        lambda: world.configure(DENIED),
        lambda context: every_operation()[name](context, chat_id="c1", **request_),
    )

    assert error.code == "forbidden"
    assert world.refs() == before


@pytest.mark.parametrize(
    ("tool_id", "args"),
    [("workspace:branch", {"name": "idea"}), ("workspace:checkout", {"branch": "main"})],
)
def test_a_rule_that_is_written_while_a_built_in_tool_waits_applies_to_it(
    world: World, tool_id: str, args: dict[str, Any]
) -> None:
    world.configure(ROLES)

    error = during_the_wait(
        world,
        lambda: world.configure(REQUIRED),
        lambda context: make_call(context, context.chat("c1"), CallRequest(tool_id, args)),
    )

    assert error.code == "needs_person"


@pytest.mark.parametrize(
    ("name", "request_"),
    [
        ("add_grant", {"kind": "network", "hosts": ("a.example",)}),
        ("override_tool", {"tool_id": "demo:ask", "requires_confirmation": False}),
        ("uninstall_toolset", {"force": True}),
    ],
)
def test_a_change_of_a_toolset_by_a_role_that_loses_the_right_meanwhile_is_not_made(
    world: World, name: str, request_: dict[str, Any]
) -> None:
    world.configure(ROLES.replace("bot: {", "bot: {admin: true, "))
    before = {file: file.read_bytes() for file in (world.root / "toolsets").rglob("*.yaml")}
    toolset = {} if "tool_id" in request_ else {"toolset_id": "demo"}
    ended: list[CovaltError] = []

    def change() -> None:
        ended.append(Operations(world.root, role="bot").error(name, **toolset, **request_))

    thread = threading.Thread(target=change)
    with file_lock.held(world.root / "toolsets"):
        thread.start()
        until_one_waits(world.root / "toolsets")
        world.configure(ROLES)
    thread.join(60)

    assert ended[0].code == "forbidden"
    after = {file: file.read_bytes() for file in (world.root / "toolsets").rglob("*.yaml")}
    assert after == before


def test_what_a_request_decides_is_asked_again_after_the_wait(world: World) -> None:
    decided: list[str] = []

    def change() -> None:
        opened = partial(Project.open, world.root)
        with Context(
            world.root, opened, check_user=lambda _, what: decided.append(what)
        ) as context:
            clear = ("requires_confirmation",)
            every_operation()["override_tool"](context, tool_id="demo:ask", clear=clear)

    thread = threading.Thread(target=change)
    with file_lock.held(world.root / "toolsets"):
        thread.start()
        until_one_waits(world.root / "toolsets")
        assert decided == []
        state = world.root / "toolsets/state/demo.yaml"
        state.parent.mkdir(exist_ok=True)
        state.write_text("overrides: {ask: {requires_confirmation: true}}\n")
    thread.join(60)

    assert len(decided) == 1
