"""Tasks belong to the principal that made their calls: for all others, each request answers as about an unknown id."""

from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client

from covalt_git.credentials.agent_tokens import AgentTokens
from covalt_git.gateway.tasks import task_notices
from covalt_git.names import new_id
from covalt_git.project import Project
from covalt_git.serving import mcp_endpoint
from tests import tasks_client as tasks
from tests.examples import rest
from tests.mcp_client import VERSIONS, make_project, refused, request, talk
from tests.operations_client import Operations
from tests.tasks_client import EXTENSIONS, get, start
from tests.uvicorn_server import TOKEN, say_over_http, served

ARGS = {"path": "a.txt", "content": "hi"}
ROLES = """\
  writer: {allow: ["demo.**"]}
  other: {allow: ["demo.**"]}
  narrow: {allow: ["demo.read"]}
"""
OWNER, SAME_ROLE, OTHER_ROLE, NARROW = "owner", "same-role", "other-role", "narrow"


def test_each_request_about_a_task_of_another_principal_answers_as_about_an_unknown_one(
    tmp_path: Path,
) -> None:
    root = make_project(tmp_path / "project", roles=ROLES)
    agents = AgentTokens(root)
    tokens = {
        OWNER: agents.new(OWNER, "writer")[1],
        SAME_ROLE: agents.new(SAME_ROLE, "writer")[1],
        OTHER_ROLE: agents.new(OTHER_ROLE, "other")[1],
        NARROW: agents.new(NARROW, "narrow")[1],
        "the server": TOKEN,
    }

    def say(port: int, name: str, talks: Any) -> Any:
        callbacks = {"extensions": EXTENSIONS}
        return anyio.run(
            partial(say_over_http, port, talks, token=tokens[name], callbacks=callbacks)
        )

    async def begin(client: Client) -> str:
        task_id: str = (await start(client, "demo.asks", ARGS)).task_id
        return task_id

    async def errors(client: Client, *task_ids: str) -> set[str]:
        answers: set[str] = set()
        for task_id in task_ids:
            for attempt in (
                get(client, task_id),
                tasks.cancel(client, task_id),
                tasks.update(client, task_id, key={"action": "accept"}),
            ):
                answers.add((await refused(attempt)).model_dump_json())
        return answers

    with served(root) as port:
        pending = say(port, OWNER, begin)
        denied = say(port, OWNER, begin)
        Operations(root)(
            "deny_call",
            execution_id=next(
                approval["execution_id"]
                for approval in Operations(root)("list_approvals")["approvals"]
                if approval["call_id"] == denied.rpartition(".")[2]
            ),
        )
        unknown = f"{pending.rpartition('.')[0]}.{new_id()}"
        answers = {
            name: say(port, name, lambda client: errors(client, pending, denied, unknown))
            for name in tokens
            if name != OWNER
        }
        own = say(port, OWNER, lambda client: errors(client, unknown))
        states = say(port, OWNER, lambda client: _states(client, pending, denied))

    assert len(own) == 1
    assert answers == dict.fromkeys(answers, own)
    assert states == ["working", "completed"]
    # The calls are those of the owner also after a restart, and after its role has lost the tool.
    with served(root) as port:
        assert say(port, OWNER, lambda client: _states(client, pending, denied)) == states
        assert say(port, SAME_ROLE, lambda client: errors(client, pending, denied)) == own
        config = root / "covalt.yaml"
        config.write_text(
            config.read_text().replace(
                'writer: {allow: ["demo.**"]}', "writer: {allow: [demo.read]}"
            )
        )
        assert say(port, OWNER, lambda client: errors(client, pending, denied)) == own
    with Project.open(root).chats.open(pending.rpartition(".")[0]) as chat:
        assert chat.call(pending.rpartition(".")[2]) is not None


def test_a_stream_gets_nothing_after_its_token_was_revoked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_endpoint, "CLEANUP_S", 3600)  # the endpoint itself closes it later
    monkeypatch.setattr(task_notices, "POLL_S", 0.02)
    root = make_project(tmp_path / "project", roles=ROLES)
    agents = AgentTokens(root)
    token = agents.new(OWNER, "writer")[1]

    async def begin(client: Client) -> str:
        task_id: str = (await start(client, "demo.asks", ARGS)).task_id
        return task_id

    with served(root) as port:
        callbacks = {"extensions": EXTENSIONS}
        task_id = anyio.run(partial(say_over_http, port, begin, token=token, callbacks=callbacks))
        listen = request("subscriptions/listen", notifications={"taskIds": [task_id]})
        listen["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = {
            "extensions": {tasks.EXTENSION: {}}
        }
        headers = {
            "Accept": "application/json, text/event-stream",
            "Authorization": f"Bearer {token}",
            "MCP-Protocol-Version": VERSIONS[0],
            "Mcp-Method": "subscriptions/listen",
        }
        with (
            httpx2.Client(verify=False, timeout=10) as http,
            http.stream(
                "POST", f"http://127.0.0.1:{port}/mcp", headers=headers, json=listen
            ) as stream,
        ):
            lines = (line for line in stream.iter_lines() if line.startswith("data"))
            assert "acknowledged" in next(lines)
            assert '"working"' in next(lines)
            agents.revoke(OWNER)
            (approval,) = Operations(root)("list_approvals")["approvals"]
            Operations(root)("approve_call", execution_id=approval["execution_id"])
            left = [*lines]

    assert left == []


def test_a_recorded_call_is_no_task_of_its_user_in_another_role(tmp_path: Path) -> None:
    root = make_project(tmp_path / "project", roles=ROLES)

    async def call(client: Client) -> str:
        result = await client.call_tool("demo.write", ARGS)
        meta = result.meta or {}
        return f"{meta['covalt-git/chat']}.{meta['covalt-git/call']}"

    task_id = talk(root, call, role="writer")

    async def status(client: Client) -> Any:
        return (await get(client, task_id))["status"]

    async def refusal(client: Client) -> str:
        return (await refused(get(client, task_id))).message

    assert talk(root, status, role="writer", extensions=EXTENSIONS) == "completed"
    for role in ("other", None):
        message = talk(root, refusal, role=role, extensions=EXTENSIONS)
        assert message == "no task of yours has this id"


async def _states(client: Client, *task_ids: str) -> list[str]:
    return [(await get(client, task_id))["status"] for task_id in task_ids]


@pytest.mark.parametrize("name", ["tasks/list", rest("tasks/result")])
def test_there_is_no_list_of_tasks(tmp_path: Path, name: str) -> None:
    root = make_project(tmp_path / "project")

    async def ask(client: Client) -> Any:
        return await refused(tasks.ask(client, name, "c1.x"))

    with served(root) as port:
        error = anyio.run(partial(say_over_http, port, ask, callbacks={"extensions": EXTENSIONS}))
    assert error.message == "Method not found"
