"""Scripts over MCP in both protocol versions, commands and the Python API: started by one, decided by another."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from mcp import Client, MCPError
from mcp_types import ElicitResult
from werkzeug.test import TestResponse

from covalt_git import open_project
from covalt_git.cli import cli
from covalt_git.errors import CovaltError
from covalt_git.models.scripts import lines_of
from tests.api_client import Api
from tests.examples import first_of
from tests.mcp_client import by_turns, error_of, one_version, talk
from tests.operations_client import Operations
from tests.scripts.conftest import CONFIG, Scripts
from tests.server.visitor import Page, Visitor
from tests.settling import until

SOURCE = "a = tools.marks.mark(name='a')\nb = tools.marks.pay(name='b')\n[a, b]"


@by_turns("mode", ["direct", "search"])
def test_an_agent_runs_a_script_and_resumes_it_after_the_decision_of_another_face(
    scripts: Scripts, version: str, mode: str
) -> None:
    async def say(client: Client) -> tuple[Any, Any]:
        name: str = "workspace.run_script"
        args: dict[str, Any] = {"script": SOURCE}
        if mode == "search":
            name, args = "call_tool", {"name": name, "arguments": args}
        paused = await client.call_tool(name, args)
        execution_id = paused.structured_content["paused"]["execution_id"]
        waits = await client.call_tool("resume", {"execution_id": execution_id})
        assert waits.structured_content == paused.structured_content
        scripts.boss("approve_call", execution_id=execution_id)
        return paused, await client.call_tool("resume", {"execution_id": execution_id})

    paused, ended = talk(scripts.root, say, version=version, chat="c1", mode=mode)
    assert not paused.is_error
    assert paused.structured_content["success"] is False
    assert paused.structured_content["paused"]["tool_path"] == "marks.pay"
    assert ended.structured_content["value"] == ["A", "B"]
    assert ended.structured_content.keys() == {"success", "value", "calls", "logs"}
    assert scripts.marks == ["a", "b"]


@one_version
def test_a_reviewer_answers_the_question_of_a_script_by_resume(
    scripts: Scripts, version: str
) -> None:
    config = CONFIG.replace('approve: ["marks.pay"]', 'approve: ["marks.order"]')
    (scripts.root / "covalt.yaml").write_text(config)
    answer = scripts.run("tools.marks.order(item='b')\ntools.marks.read()")
    sent = {"execution_id": answer["execution_id"], "approved": True}
    asked = []

    async def show(_: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept", content={"size": 2})

    async def say(client: Client) -> Any:
        return await client.call_tool("resume", sent)

    refused = talk(scripts.root, say, version=version, chat="c1", role="reviewer")
    assert error_of(refused)["error"] == "cannot_ask"
    assert scripts.show(answer)["state"] == "paused"
    callbacks = {"elicitation_callback": show}
    talk(scripts.root, say, version=version, chat="c1", role="reviewer", callbacks=callbacks)
    assert asked == ["How many of b?"]
    assert scripts.show(answer)["result"]["value"] == ["b", "2"]


@one_version
def test_the_client_that_runs_a_script_is_asked_at_once(scripts: Scripts, version: str) -> None:
    async def show(*_: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={"size": 2})

    async def say(client: Client) -> Any:
        source = "tools.marks.order(item='b')\ntools.marks.read()"
        return await client.call_tool("workspace.run_script", {"script": source})

    callbacks = {"elicitation_callback": show}
    ended = talk(scripts.root, say, version=version, chat="c1", callbacks=callbacks)
    assert ended.structured_content["value"] == ["b", "2"]


def test_a_failed_script_is_an_error_with_its_calls_and_logs(scripts: Scripts) -> None:
    async def say(client: Client) -> Any:
        source = "print('here')\ntools.marks.fail(name='x')"
        return await client.call_tool("workspace.run_script", {"script": source})

    result = talk(scripts.root, say, chat="c1")
    assert result.is_error
    assert result.structured_content["error"]["code"] == "tool_raised"
    assert [log["message"] for log in result.structured_content["logs"]] == ["here"]


def test_a_client_without_a_right_to_decide_does_not_approve_by_resume(scripts: Scripts) -> None:
    async def say(client: Client) -> Any:
        paused = await client.call_tool("workspace.run_script", {"script": SOURCE})
        execution_id = paused.structured_content["paused"]["execution_id"]
        return await client.call_tool("resume", {"execution_id": execution_id, "approved": True})

    result = talk(scripts.root, say, chat="c1")
    assert "paused" in result.structured_content
    assert scripts.marks == ["a"]


def test_a_reviewer_gets_the_decided_call_of_a_script_with_tools_that_they_may_not_see(
    scripts: Scripts,
) -> None:
    answer = scripts.run("a = tools.marks.mark(name='private')\ntools.marks.pay(name='b')\na")

    async def say(client: Client) -> Any:
        sent = {"execution_id": answer["execution_id"], "approved": True}
        return [await client.call_tool("resume", sent) for _ in range(2)]

    results = talk(scripts.root, say, chat="c1", role="reviewer")
    assert scripts.marks == ["private", "b"]
    for result in results:
        assert "B" in str(result.content)
        assert "private" not in result.model_dump_json().lower()
        assert "calls" not in (result.structured_content or {})


def test_a_tool_for_scripts_is_not_listed_for_agents(scripts: Scripts) -> None:
    async def say(client: Client) -> list[str]:
        return [tool.name for tool in (await client.list_tools()).tools]

    names = talk(scripts.root, say, chat="c1")
    assert "workspace.run_script" in names
    assert "marks.inner" not in names


def run(scripts: Scripts, *args: str, code: int = 0) -> str:
    result = CliRunner().invoke(cli, ["-C", str(scripts.root), *args])
    assert result.exit_code == code, result.output
    return result.output


def test_commands_run_decide_show_and_replay_a_script(scripts: Scripts, tmp_path: Path) -> None:
    file = tmp_path / "report.py"
    file.write_text("tools.marks.mark(name=args['n'])\ntools.marks.pay(name='b')\nargs['k'] + 1")
    printed = run(
        scripts, "script", "run", str(file), "--chat", "c1", "--arg", "n=a", "--arg", "k=1", code=4
    )
    assert "marks:pay needs approval" in printed
    (row,) = scripts.operate("list_scripts")["scripts"]
    assert row["id"] in run(scripts, "script", "list")
    shown = run(scripts, "script", "show", row["id"][-6:])
    assert "ok" in shown
    assert "waits" in shown
    approve = ("approval", "approve", row["execution_id"], "--no-terminal", "tested", "--next", "2")
    run(scripts, *approve, code=1)
    run(scripts, "--role", "boss", *approve)
    assert "success" in run(scripts, "script", "show", row["id"])
    assert "the same: 2 calls" in run(scripts, "script", "replay", row["id"])
    assert scripts.marks == ["a", "b"]


def test_the_lines_of_a_script_are_those_of_its_interpreter(scripts: Scripts) -> None:
    source = 'x = """a\u2028b\fc"""\ntools.marks.pay(name="u")\n'
    answer = scripts.run(source)
    shown = run(scripts, "script", "show", answer["id"])
    (waiting,) = [line for line in shown.splitlines() if line.lstrip().startswith("2 ")]
    assert "waits" in waiting
    assert "tools.marks.pay" in waiting
    assert [line["line"] for line in scripts.show(answer)["lines"]] == [2]
    assert lines_of(source) == source.split("\n")[:2]


def test_a_question_is_answered_on_the_page_and_by_the_python_api(scripts: Scripts) -> None:
    source = "tools.marks.order(item='a')\ntools.marks.order(item='b')\ntools.marks.read()"
    answer = scripts.run(source)
    assert "marks:order asks: How many of a?" in run(scripts, "script", "show", answer["id"])
    visitor = Visitor(Api.of(scripts.root, "boss").app)
    page = visitor.open(f"/approvals/{answer['execution_id']}")
    assert "How many of a?" in page.text
    asked = visitor.send(page.form("/approve"))
    assert "How many of a?" in asked.text
    (form,) = [form for form in asked.forms if "/questions/" in form.action]
    visitor.send(form, "Answer", **{next(n for n in form.fields if "size" in n): "2"})
    until(lambda: scripts.show(answer)["execution_id"] not in {None, answer["execution_id"]})
    assert scripts.marks == ["a", "2"]

    second = scripts.show(answer)["execution_id"]
    (key,) = scripts.boss("get_approval", execution_id=second)["questions"]
    with open_project(scripts.root, role="boss") as project:
        project.approve(second, answers={key: {"action": "accept", "content": {"size": 3}}})
    assert scripts.show(answer)["result"]["value"] == ["a", "2", "b", "3"]


@pytest.mark.rest
def test_the_python_api_runs_and_decides_a_script(scripts: Scripts) -> None:
    with open_project(scripts.root) as project:
        answer = project.chat("c1").call("workspace:run_script", {"script": SOURCE})
        assert answer.status == "pending"
        assert answer.execution_id is not None
    with open_project(scripts.root, role="boss") as project:
        project.approve(answer.execution_id)
    assert scripts.show({"id": answer.id})["result"]["value"] == ["A", "B"]


# Which role may see and call workspace:run_script: what each face lists, finds, reads and calls.

RUN_SCRIPT = "workspace:run_script"
WANTED: dict[str, Any] = {"query": "run a script that calls tools", "limit": 50}
ARGS = {"script": "1"}
ROLES = {
    "runner": ('{allow: ["workspace.*"]}', True),
    "only-scripts": ('{allow: ["workspace.run_script"]}', True),
    "admin": ("{admin: true}", True),
    "narrow": ('{allow: ["marks.*", "workspace.read_file"]}', False),
    "denied": ('{allow: ["**"], deny: ["workspace.run_script"]}', False),
    "admin-denied": ('{admin: true, deny: ["workspace.run_*"]}', False),
    "approver": ('{approve: ["**"]}', False),
    "empty": ("{}", False),
}
HIDDEN = (False, False, "unknown_tool", "unknown_tool")
VISIBLE = (True, True, "", "")


def by_operations(root: Path, role: str) -> tuple[bool, bool, str, str]:
    operate = Operations(root, role=role)

    def code(name: str, **request: Any) -> str:
        try:
            operate(name, **request)
        except CovaltError as error:
            return error.code
        return ""

    listed = [row["tool_id"] for group in operate("list_tools")["groups"] for row in group["tools"]]
    found = [row["tool_id"] for row in operate("search_tools", **WANTED)["tools"]]
    return (
        RUN_SCRIPT in listed,
        RUN_SCRIPT in found,
        code("get_tool", tool_id=RUN_SCRIPT),
        code("call_tool", chat_id="c1", tool_id=RUN_SCRIPT, args=ARGS),
    )


def by_api(root: Path, role: str) -> tuple[bool, bool, str, str]:
    api = Api.of(root, role=role)

    def code(answer: TestResponse) -> str:
        body = answer.get_json()
        return body["error"] if answer.status_code == 404 else ""

    listed = [row["tool_id"] for group in api.get("list_tools")["groups"] for row in group["tools"]]
    return (
        RUN_SCRIPT in listed,
        RUN_SCRIPT in api.ask("search_tools", **WANTED).get_data(as_text=True),
        code(api.ask("get_tool", tool_id=RUN_SCRIPT)),
        code(api.tell("call_tool", chat_id="c1", tool_id=RUN_SCRIPT, args=ARGS)),
    )


def by_page(root: Path, role: str) -> tuple[bool, bool, str, str]:
    visitor = Visitor(Api.of(root, role=role).app)

    def code(page: Page) -> str:
        return "unknown_tool" if page.status == 404 else ""

    listed = [link.href for link in visitor.open("/tools").links]
    found = [link.href for link in visitor.open("/tools?q=script").links]
    page = f"/tools/{RUN_SCRIPT}"
    return (
        any(page in href for href in listed),
        any(page in href for href in found),
        code(visitor.open(page)),
        code(visitor.open(f"{page}?chat=c1")),
    )


def by_command(root: Path, role: str) -> tuple[bool, bool, str, str]:
    def run(*args: str) -> tuple[str, str]:
        command = ["-C", str(root), "--role", role, *args, "--json"]
        try:
            done = CliRunner().invoke(cli, command, catch_exceptions=False)
        except CovaltError as error:
            return "", error.code
        assert done.exit_code == 0
        return done.stdout, ""

    return (
        RUN_SCRIPT in run("tool", "list")[0],
        RUN_SCRIPT in run("tool", "search", *WANTED["query"].split(), "--limit", "50")[0],
        run("tool", "show", RUN_SCRIPT)[1],
        run("call", "c1", RUN_SCRIPT, "--arg", "script=1")[1],
    )


def by_python(root: Path, role: str) -> tuple[bool, bool, str, str]:
    with open_project(root, role=role) as project:
        try:
            project.chat("c1").call(RUN_SCRIPT, ARGS)
        except CovaltError as error:
            code = error.code
        else:
            code = ""
        listed = [tool.tool_id for tool in project.tools]
        found = [tool.tool_id for tool in project.search_tools(WANTED["query"], limit=50)]
    # It has no face that reads a tool but the list.
    return RUN_SCRIPT in listed, RUN_SCRIPT in found, code, code


def by_mcp(root: Path, role: str) -> tuple[bool, bool, str, str]:
    name = RUN_SCRIPT.replace(":", ".")

    async def say(client: Client) -> tuple[bool, str]:
        listed = [tool.name for tool in (await client.list_tools()).tools]
        try:
            await client.call_tool(name, ARGS)
        except MCPError as error:
            # The protocol has its own error for it, with the same words.
            return name in listed, error.error.message
        return name in listed, ""

    listed, message = talk(root, say, chat="c1", role=role)
    code = "unknown_tool" if message.startswith(f"unknown tool {name!r}") else message
    return listed, listed, code, code


def by_mcp_in_search_mode(root: Path, role: str) -> tuple[bool, bool, str, str]:
    name = RUN_SCRIPT.replace(":", ".")

    async def say(client: Client) -> tuple[bool, bool, str, str]:
        async def code(meta_tool: str, **args: Any) -> str:
            result = await client.call_tool(meta_tool, {"name": name, **args})
            return str(error_of(result)["error"]) if result.is_error else ""

        listed = (await client.list_tools()).tools
        found = (await client.call_tool("search_tools", WANTED)).structured_content["tools"]
        is_found = name in {tool["name"] for tool in found}
        # The descriptions of the three tools must not name it either.
        is_named = "run_script" in "".join(tool.model_dump_json() for tool in listed)
        assert is_found or not is_named
        called = await code("call_tool", arguments=ARGS)
        return is_found, is_found, await code("read_tool"), called

    return talk(root, say, chat="c1", role=role, mode="search")


FACES = (by_operations, by_api, by_page, by_command, by_python, by_mcp, by_mcp_in_search_mode)
ROWS = [(face, role, may) for face in FACES for role, (_, may) in ROLES.items()]


# Each face with a role that may and one that may not, and each role: which role may, one function decides for all.
@pytest.mark.parametrize(("face", "role", "may"), first_of(ROWS, (0, 2), (1,)))
def test_each_face_lists_finds_reads_and_calls_run_script_for_the_roles_that_may(
    scripts: Scripts,
    face: Callable[[Path, str], tuple[bool, bool, str, str]],
    role: str,
    *,
    may: bool,
) -> None:
    lines = [f"  {name}: {allowed}" for name, (allowed, _) in ROLES.items()]
    config = "version: 1\nworkspace: {durability: fast}\nroles:\n" + "\n".join(lines) + "\n"
    (scripts.root / "covalt.yaml").write_text(config)
    assert face(scripts.root, role) == (VISIBLE if may else HIDDEN)
    # A script that ran is a commit of the chat.
    made = Operations(scripts.root, role="admin")("list_manifests", chat_id="c1")["manifests"]
    assert len(made) == int(may and face is not by_page)
