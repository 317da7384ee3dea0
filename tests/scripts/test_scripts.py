"""Scripts: their calls take the ordinary path, wait for approvals, and are made once."""

import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from covalt_git import timestamps
from covalt_git.cli import main
from covalt_git.errors import CovaltError
from covalt_git.models.commit_record import CallRecord
from covalt_git.operations.calls import script_calls
from covalt_git.project import Project
from covalt_git.scripts import script_run, stored_script
from covalt_git.scripts.stored_script import StoredScript
from covalt_git.toolsets.project_files import read_project
from tests.api_client import BEARER, HOME, Api
from tests.examples import rest
from tests.operations_client import Operations
from tests.scripts.conftest import CONFIG, Scripts
from tests.workspaces.stores import git


def record(scripts: Scripts, call_id: str) -> CallRecord:
    with Project.open(scripts.root).chats.open("c1") as chat:
        for manifest in chat.log(chat.head()):
            if manifest.record.id == call_id and manifest.record.call is not None:
                return manifest.record.call
    raise AssertionError(f"{call_id} is not recorded")


def crash(monkeypatch: pytest.MonkeyPatch, scripts: Scripts, source: str, *, after: int) -> str:
    """Run a script in a process that dies after a number of its calls; return its id."""
    made = 0
    make = script_run.ScriptRun._make

    def dying(self: Any, chat: Any, call: Any) -> Any:
        nonlocal made
        if made == after:
            raise KeyboardInterrupt
        made += 1
        return make(self, chat, call)

    with monkeypatch.context() as patched:
        patched.setattr(script_run.ScriptRun, "_make", dying)
        with pytest.raises(KeyboardInterrupt):
            scripts.run(source)
    (ref,) = scripts.refs()
    return ref.rpartition("/")[2]


# Running


@pytest.mark.requirement("toolshed-invoke")
@pytest.mark.requirement("toolshed-proxy")
def test_the_result_has_the_value_the_calls_and_the_logs(scripts: Scripts) -> None:
    answer = scripts.run(
        "print('hello')\nr = tools.marks.mark(name=args['n'])\n[r, tools.marks.read()]", n="a"
    )
    assert answer["status"] == "success"
    call_ids = [call.pop("call_id") for call in answer["result"]["calls"]]
    assert answer["result"] == {
        "success": True,
        "value": ["A", ["a"]],
        "calls": [
            {"path": "marks.mark", "args": {"name": "a"}, "status": "success"},
            {"path": "marks.read", "args": {}, "status": "success"},
        ],
        "logs": [{"level": "info", "message": "hello"}],
    }
    first = record(scripts, call_ids[0])
    assert (first.tool_id, first.parent, first.line) == ("marks:mark", answer["id"], 2)
    ended = record(scripts, answer["id"])
    assert (ended.tool_id, ended.args["script"][:5]) == ("workspace:run_script", "print")
    assert scripts.refs() == []
    assert not list((scripts.root / "data/chats/c1").glob("script-*"))


def test_an_error_names_its_line_and_the_calls_before_it(scripts: Scripts) -> None:
    answer = scripts.run("tools.marks.mark(name='a')\ntools.marks.fail(name='b')")
    assert (answer["status"], answer["result"]["success"]) == ("error", False)
    error = answer["result"]["error"]
    assert (error["code"], error["line"]) == ("tool_raised", 2)
    assert [call["status"] for call in answer["result"]["calls"]] == ["success", "error"]
    assert "value" not in answer["result"]


def test_an_error_of_a_call_can_be_caught(scripts: Scripts) -> None:
    source = "try:\n    tools.marks.fail(name='b')\nexcept Exception as e:\n    r = str(e)\nr"
    answer = scripts.run(source)
    assert answer["result"]["success"]
    assert "no b" in answer["result"]["value"]


@pytest.mark.parametrize("path", ["marks.hidden", "marks.raed", "nowhere.read"])
def test_hidden_and_missing_tools_are_unknown_and_near_names_are_those_of_the_role(
    scripts: Scripts, path: str
) -> None:
    error = scripts.run(f"tools.{path}(name='x')")["result"]["error"]
    assert error["code"] == "unknown_tool"
    near = error["message"].partition("near: ")[2].split(", ")
    assert "marks.hidden" not in near
    assert len(near) <= 3
    assert scripts.marks == []


@pytest.mark.requirement("toolshed-proxy.search")
@pytest.mark.requirement("toolshed-proxy.describe")
def test_scripts_find_tools_as_agents_do(scripts: Scripts) -> None:
    source = (
        "found = tools.search(query='marks', limit=20)\n"
        "shown = tools.describe.tool(path='marks.mark')\n[found, shown]"
    )
    found, shown = scripts.run(source)["result"]["value"]
    paths = {tool["path"] for tool in found["tools"]}
    assert {"marks.read", "marks.mark"} <= paths
    assert not {"marks.hidden", "marks.direct", "workspace.run_script"} & paths
    assert shown["inputSchema"]["required"] == ["name"]
    assert shown["annotations"]["readOnlyHint"] is False


@pytest.mark.parametrize("path", ["workspace.run_script", "workspace.checkout", "marks.direct"])
def test_tools_for_direct_callers_are_refused_to_scripts(scripts: Scripts, path: str) -> None:
    error = scripts.run(f"tools.{path}(name='x')")["result"]["error"]
    assert error["code"] == "wrong_caller"
    assert scripts.marks == []


def test_a_tool_for_scripts_is_refused_to_direct_callers(scripts: Scripts) -> None:
    args = {"name": "a"}
    error = scripts.operate.error("call_tool", chat_id="c1", tool_id="marks:inner", args=args)
    assert error.code == "wrong_caller"
    assert scripts.run("tools.marks.inner(name='b')")["result"]["success"]
    assert scripts.marks == ["b"]


def test_invalid_arguments_are_an_error_of_the_call(scripts: Scripts) -> None:
    error = scripts.run("tools.marks.mark(name=3)")["result"]["error"]
    assert error["code"] == "invalid_arguments"
    assert "$.name" in error["message"]


def test_calls_issued_together_are_answered_in_order(scripts: Scripts) -> None:
    source = (
        "import asyncio\n"
        "await asyncio.gather(*[tools.marks.mark(name=n) for n in ['a', 'b', 'c']],"
        " tools.marks.read(), tools.marks.read())"
    )
    answer = scripts.run(source)
    assert answer["result"]["value"] == ["A", "B", "C", *[["a", "b", "c"]] * 2]
    assert scripts.marks == ["a", "b", "c"]


def test_the_limits_of_the_project_are_those_of_a_script(scripts: Scripts) -> None:
    config = CONFIG.replace("waiting: 3", "waiting: 3, calls: 2, time_s: 0.5")
    (scripts.root / "covalt.yaml").write_text(config)
    many = scripts.run("for i in range(5):\n    tools.marks.mark(name=str(i))")
    assert many["result"]["error"]["code"] == "script_calls"
    assert scripts.marks == ["0", "1"]
    assert scripts.run("while True:\n    pass")["result"]["error"]["code"] == "script_time"


def test_a_source_that_is_too_large_is_refused_before_it_is_stored_or_checked(
    scripts: Scripts,
) -> None:
    config = CONFIG.replace("waiting: 3", "waiting: 3, source_kb: 1")
    (scripts.root / "covalt.yaml").write_text(config)
    source = "# " + 1023 * "é" + "\n1"
    sent = {"script": source}
    refused = scripts.operate.error(
        "call_tool", chat_id="c1", tool_id="workspace:run_script", args=sent
    )
    assert refused.code == "script_too_large"
    assert scripts.operate.error("check_script", script=source).code == "script_too_large"
    assert scripts.refs() == []
    assert scripts.run("#" + 1000 * "x" + "\n1")["result"]["value"] == 1


@pytest.mark.requirement("toolshed-proxy.enumerate")
def test_the_proxy_cannot_be_enumerated(scripts: Scripts) -> None:
    source = "r = []\ntry:\n    r = [name for name in tools]\nexcept Exception:\n    pass\nr"
    assert scripts.run(source)["result"]["value"] == []
    listed = scripts.run("[Object.keys(tools), 'marks' in tools]", language="javascript")
    assert listed["result"]["value"] == [[], False]


def test_rights_that_change_while_a_script_runs_hold_for_its_next_call(
    scripts: Scripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = script_run.ScriptRun._make

    def changing(self: Any, chat: Any, call: Any) -> Any:
        made = make(self, chat, call)
        config = CONFIG.replace('deny: ["marks.hidden"]', 'deny: ["marks.*"]')
        (scripts.root / "covalt.yaml").write_text(config)
        return made

    monkeypatch.setattr(script_run.ScriptRun, "_make", changing)
    answer = scripts.run("tools.marks.mark(name='a')\ntools.marks.mark(name='b')")
    assert answer["result"]["error"]["code"] == "unknown_tool"
    assert scripts.marks == ["a"]


# Pausing


PAID = "a = tools.marks.mark(name='a')\nb = tools.marks.pay(name='b')\nc = tools.marks.mark(name='c')\n[a, b, c]"


ORDERED = (
    "a = tools.marks.mark(name='a')\nb = tools.marks.order(item='b')\n[a, b, tools.marks.read()]"
)
ORDERED_IN_JAVASCRIPT = """\
const a = await tools.marks.mark({name: 'a'});
const b = await tools.marks.order({item: 'b'});
const read = await tools.marks.read();
[a, b, read]
"""


@pytest.mark.parametrize("language", ["python", rest("javascript")])
def test_a_script_waits_at_a_question_that_no_user_is_there_to_answer(
    scripts: Scripts, language: str
) -> None:
    source = {"python": ORDERED, "javascript": ORDERED_IN_JAVASCRIPT}[language]
    answer = scripts.run(source, language=language)
    paused = answer["result"]["paused"]
    assert (answer["status"], paused["tool_path"]) == ("pending", "marks.order")
    assert paused["message"] == "marks:order asks: How many of b?"
    # What the tool wrote before its question is undone, because it runs again from its start.
    assert scripts.marks == ["a"]
    shown = scripts.boss("get_approval", execution_id=answer["execution_id"])
    (key,) = shown["questions"]
    which = {"execution_id": answer["execution_id"]}
    wrong: list[Any] = [None, {}, {"other": {}}, {key: {"action": "accept", "content": {}}}]
    refused = [
        scripts.boss.error("approve_call", **which, answers=answers).code for answers in wrong
    ]
    assert refused == ["cannot_ask", *["invalid_answer"] * 3]
    assert (scripts.marks, scripts.show(answer)["state"]) == (["a"], "paused")

    answers = {key: {"action": "accept", "content": {"size": 3}}}
    ended = scripts.approve(answer, answers=answers)
    assert ended["result"]["value"] == ["A", "b", ["a", "b", "3"]]
    asked = record(scripts, ended["lines"][1]["call_id"]).asked
    assert [(question.message, question.answer) for question in asked] == [
        ("How many of b?", "accept")
    ]


@pytest.mark.rest
def test_an_approved_call_of_a_script_waits_at_its_question(scripts: Scripts) -> None:
    config = CONFIG.replace('"marks.pay", require', '"marks.order", require')
    (scripts.root / "covalt.yaml").write_text(config)
    first = scripts.run(ORDERED)
    # The reviewer approved it over the API, which cannot ask.
    again = scripts.approve(first)
    assert (again["state"], again["execution_id"] != first["execution_id"]) == ("paused", True)
    assert scripts.marks == ["a"]
    (key,) = scripts.boss("get_approval", execution_id=again["execution_id"])["questions"]
    ended = scripts.approve(again, answers={key: {"action": "decline"}})
    assert ended["result"]["value"] == ["A", "b", ["a", "b", "none"]]


def test_a_call_that_asks_something_else_than_was_answered_waits_again(scripts: Scripts) -> None:
    answer = scripts.run("tools.marks.order(item='b')\ntools.marks.read()")
    which = {"execution_id": answer["execution_id"]}
    (key,) = scripts.boss("get_approval", **which)["questions"]
    code = scripts.root / "toolsets/marks/tools/marks.py"
    second = '    get_context().elicit("Sure?", form)\n    mark(str(answer'
    code.write_text(code.read_text().replace("    mark(str(answer", second))
    renewed = scripts.boss.error("approve_call", **which, answers={key: {"action": "decline"}})
    assert renewed.code == "asked_again"
    (renewed_id,) = [row["execution_id"] for row in scripts.boss("list_scripts")["scripts"]]
    scripts.boss(
        "approve_call",
        execution_id=renewed_id,
        answers={key: {"action": "accept", "content": {"size": 2}}},
    )
    shown = scripts.show(answer)
    assert (shown["state"], scripts.marks) == ("paused", [])
    asked = scripts.boss("get_approval", execution_id=shown["execution_id"])["questions"]
    assert [question["params"]["message"] for question in asked.values()] == ["Sure?"]


def test_a_denied_question_is_an_error_in_the_script(scripts: Scripts) -> None:
    source = (
        "r = ''\ntry:\n    tools.marks.order(item='b')\nexcept Exception as e:\n    r = str(e)\nr"
    )
    ended = scripts.deny(scripts.run(source), "ask the shop")
    assert "denied" in ended["result"]["value"]
    assert "ask the shop" in ended["result"]["value"]
    assert scripts.marks == []


def test_a_question_of_a_call_without_a_script_is_an_error_of_it(scripts: Scripts) -> None:
    answer = scripts.boss("call_tool", chat_id="c1", tool_id="marks:order", args={"item": "b"})
    assert answer["error_detail"]["code"] == "cannot_ask"


@pytest.mark.requirement("toolshed-elicitation.script")
def test_a_script_waits_for_an_approval_and_continues_with_the_decision(scripts: Scripts) -> None:
    answer = scripts.run(PAID)
    assert answer["status"] == "pending"
    paused = answer["result"]["paused"]
    assert paused["execution_id"] == answer["execution_id"]
    assert (paused["tool_path"], paused["args"]) == ("marks.pay", {"name": "b"})
    assert [call["status"] for call in answer["result"]["calls"]] == ["success", "pending"]
    assert scripts.marks == ["a"]
    assert scripts.show(answer)["state"] == "paused"

    ended = scripts.approve(answer)
    assert (ended["state"], ended["result"]["value"]) == ("success", ["A", "B", "C"])
    assert scripts.marks == ["a", "b", "c"]
    assert scripts.refs() == []
    # As the principal that started it, not as the reviewer.
    by = [
        scripts.boss("get_call", chat_id="c1", call_id=c["call_id"])["by"] for c in ended["lines"]
    ]
    assert by == ["local"] * 3


@pytest.mark.rest
def test_the_script_runs_with_the_rights_of_the_principal_that_started_it(scripts: Scripts) -> None:
    source = "tools.marks.pay(name='b')\ntools.marks.hidden(name='c')"
    ended = scripts.approve(scripts.run(source))
    assert ended["result"]["error"]["code"] == "unknown_tool"
    assert scripts.marks == ["b"]


def test_rights_and_rules_are_asked_again_for_each_call_of_a_continued_script(
    scripts: Scripts,
) -> None:
    answer = scripts.run("tools.marks.pay(name='b')\ntools.marks.mark(name='c')")
    config = CONFIG.replace('deny: ["marks.hidden"]', 'deny: ["marks.hidden", "marks.mark"]')
    (scripts.root / "covalt.yaml").write_text(config)
    ended = scripts.approve(answer)
    assert ended["result"]["error"]["code"] == "unknown_tool"
    assert scripts.marks == ["b"]


def test_a_script_in_javascript_waits_and_continues(scripts: Scripts) -> None:
    source = (
        "const r = [await tools.marks.mark({name: 'a'}), Date.now(), Math.random()];\n"
        "try { r.push(await tools.marks.pay({name: 'b'})); } catch (e) { r.push(e.code); }\n"
        "console.log(r[1] + ' ' + r[2]);\nr"
    )
    waiting = scripts.run(source, language="javascript")
    assert waiting["result"]["paused"]["tool_path"] == "marks.pay"
    ended = scripts.approve(waiting)
    assert ended["result"]["value"][::3] == ["A", "B"]
    # The clock and the random numbers of each run are those of the first one.
    assert scripts.operate("replay_script", script_id=waiting["id"])["divergence"] is None
    denied = scripts.deny(scripts.run(source, language="javascript"), "no")
    assert denied["result"]["value"][3] == "denied"
    assert scripts.marks == ["a", "b", "a"]


def test_a_denied_call_raises_with_the_reason_and_can_be_caught(scripts: Scripts) -> None:
    caught = "try:\n    tools.marks.pay(name='b')\nexcept Exception as e:\n    r = str(e)\nr"
    ended = scripts.deny(scripts.run(caught), "too much")
    assert ended["state"] == "success"
    assert "too much" in ended["result"]["value"]
    uncaught = scripts.deny(scripts.run(PAID))
    assert (uncaught["state"], uncaught["result"]["error"]["code"]) == ("error", "denied")
    assert (uncaught["result"]["error"]["line"], scripts.marks) == (2, ["a"])


def test_an_expired_approval_ends_the_script(scripts: Scripts) -> None:
    config = CONFIG.replace("limits: {", "limits: {approval_expires_s: 1, ")
    (scripts.root / "covalt.yaml").write_text(config)
    source = "try:\n    tools.marks.pay(name='b')\nexcept Exception:\n    pass\ntools.marks.mark(name='c')"
    answer = scripts.run(source)
    with Project.open(scripts.root).chats.open("c1") as chat:
        approval = chat.approval(answer["execution_id"])
        assert approval is not None
        with Project.open(scripts.root).writing(chat) as writer:
            past = approval.model_copy(update={"expires_at": "2020-01-01T00:00:00Z"})
            writer.put_approval(past, before=approval)
    ended = scripts.operate("continue_script", script_id=answer["id"])
    assert ended["result"]["error"]["code"] == "expired"
    assert scripts.marks == []


def test_changed_files_renew_the_approval_and_the_script_waits_on(scripts: Scripts) -> None:
    answer = scripts.run(PAID)
    scripts.operate("call_tool", chat_id="c1", tool_id="marks:mark", args={"name": "other"})
    error = scripts.boss.error("approve_call", execution_id=answer["execution_id"])
    assert error.code == "asked_again"
    waiting = scripts.show(answer)
    assert waiting["state"] == "paused"
    assert waiting["execution_id"] != answer["execution_id"]
    ended = scripts.approve(waiting)
    assert ended["state"] == "success"
    assert scripts.marks == ["a", "other", "b", "c"]


def test_a_paused_script_is_data_that_git_reads(scripts: Scripts) -> None:
    answer = scripts.run(PAID, month="may")
    store = scripts.operate.store("c1")
    (ref,) = scripts.refs()
    assert ref == f"refs/covalt/scripts/{answer['id']}"
    stored = json.loads(str(git(store, "show", f"{ref}:script")).partition("\n\n")[2])
    assert (stored["request"]["script"], stored["request"]["args"]) == (PAID, {"month": "may"})
    assert (stored["by"], stored["branch"]) == ("local", "main")
    first = json.loads(str(git(store, "show", f"{ref}:calls/000000")).partition("\n\n")[2])
    assert (first["path"], first["status"]) == ("marks.mark", "success")
    git(store, "fsck", "--strict")
    scripts.boss("collect_garbage", chat_id="c1")
    assert scripts.approve(answer)["state"] == "success"


def test_a_finished_call_is_not_executed_again_after_a_crash(
    scripts: Scripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "[tools.marks.mark(name=str(i)) for i in range(4)]"
    for after in range(4):
        script_id = crash(monkeypatch, scripts, source, after=after)
        assert scripts.show({"id": script_id})["state"] == "interrupted"
        ended = scripts.operate("continue_script", script_id=script_id)
        assert ended["result"]["value"] == ["0", "1", "2", "3"]
        assert scripts.marks == ["0", "1", "2", "3"]
        (scripts.operate.workspace("c1") / "marks.txt").unlink()


def test_a_decision_whose_process_dies_leaves_a_script_that_is_continued(
    scripts: Scripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = scripts.run(PAID)

    def dying(*_args: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(script_calls, "_continue_after", dying)
        with pytest.raises(KeyboardInterrupt):
            scripts.approve(answer)
    assert (scripts.show(answer)["state"], scripts.marks) == ("interrupted", ["a", "b"])
    ended = scripts.operate("continue_script", script_id=answer["id"])
    assert (ended["state"], scripts.marks) == ("success", ["a", "b", "c"])


def test_a_call_whose_process_dies_is_answered_as_interrupted(
    scripts: Scripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dying(*_args: Any, begin: Callable[[], None], **_more: Any) -> None:
        begin()
        raise KeyboardInterrupt

    source = "try:\n    tools.marks.mark(name='a')\nexcept Exception as e:\n    r = str(e)\nr"
    with monkeypatch.context() as patched:
        patched.setattr("covalt_git.calls.python_calls.run", dying)
        with pytest.raises(KeyboardInterrupt):
            scripts.run(source)
    (ref,) = scripts.refs()
    ended = scripts.operate("continue_script", script_id=ref.rpartition("/")[2])
    assert ended["result"]["value"].startswith("interrupted")
    assert scripts.marks == []


def test_a_script_that_ended_before_its_state_went_is_found_as_ended(
    scripts: Scripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dying(_self: Any, _writer: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(StoredScript, "delete", dying)
        with pytest.raises(KeyboardInterrupt):
            scripts.run("tools.marks.mark(name='a')")
    (ref,) = scripts.refs()
    ended = scripts.operate("continue_script", script_id=ref.rpartition("/")[2])
    assert ended["state"] == "success"
    assert (scripts.marks, scripts.refs()) == (["a"], [])


@pytest.mark.parametrize("change", ["path", "digest"])
def test_a_script_that_makes_another_call_than_before_ends_as_diverged(
    scripts: Scripts, change: str
) -> None:
    answer = scripts.run(PAID)
    project = Project.open(scripts.root)
    with project.chats.open("c1") as chat, project.writing(chat) as writer:
        stored = StoredScript.read(chat, answer["id"])
        assert stored is not None
        other = {"path": "marks.read", "digest": "sha256:" + "0" * 64}[change]
        stored.add(stored.calls[0].model_copy(update={change: other}))
        stored.save(writer)
    ended = scripts.approve(answer)
    assert ended["result"]["error"]["code"] == "script_diverged"
    assert scripts.marks == ["a", "b"]


def test_answers_without_a_record_are_the_same_when_a_script_continues(scripts: Scripts) -> None:
    (scripts.operate.workspace("c1") / "note.txt").write_text("before")
    source = (
        "t = tools.workspace.read_file(path='note.txt')['content']\n"
        "try:\n    tools.marks.hidden(name='x')\nexcept Exception as e:\n    t = t + ' refused'\n"
        "tools.marks.pay(name='b')\nt"
    )
    answer = scripts.run(source)
    # Both would be answered in another way now.
    (scripts.root / "covalt.yaml").write_text(CONFIG.replace('deny: ["marks.hidden"]', "deny: []"))
    ended = scripts.approve(answer)
    assert ended["result"]["value"] == "before refused"
    assert scripts.marks == ["b"]


def test_other_calls_come_between_while_a_script_waits(scripts: Scripts) -> None:
    scripts.run(PAID)
    args = {"name": "other"}
    other = scripts.operate("call_tool", chat_id="c1", tool_id="marks:mark", args=args)
    assert other["status"] == "success"


def test_calls_of_a_script_are_on_its_branch(scripts: Scripts) -> None:
    answer = scripts.run(PAID)
    scripts.boss("create_branch", chat_id="c1", name="idea")
    scripts.boss("switch_branch", chat_id="c1", branch="idea")
    error = scripts.boss.error("approve_call", execution_id=answer["execution_id"])
    assert error.code == "other_branch"
    scripts.boss("switch_branch", chat_id="c1", branch="main")
    assert scripts.approve(answer)["state"] == "success"


def test_a_script_whose_branch_is_gone_ends(scripts: Scripts) -> None:
    scripts.run("tools.marks.mark(name='0')")
    scripts.boss("create_branch", chat_id="c1", name="idea")
    scripts.boss("switch_branch", chat_id="c1", branch="idea")
    answer = scripts.run(PAID)
    scripts.boss("switch_branch", chat_id="c1", branch="main")
    scripts.boss("delete_branch", chat_id="c1", branch="idea", force=True)
    error = scripts.operate.error("continue_script", script_id=answer["id"])
    assert error.code == "branch_deleted"
    assert scripts.refs() == []


def test_a_chat_has_a_number_of_scripts_that_wait(scripts: Scripts) -> None:
    for _ in range(3):
        scripts.run("tools.marks.pay(name='b')")
    args = {"script": "1"}
    error = scripts.operate.error(
        "call_tool", chat_id="c1", tool_id="workspace:run_script", args=args
    )
    assert error.code == "too_many_scripts"


def test_a_script_is_run_by_one_process(scripts: Scripts) -> None:
    answer = scripts.run(PAID)
    with (
        Project.open(scripts.root).chats.open("c1") as chat,
        stored_script.held(chat, answer["id"], wait=False),
    ):
        error = scripts.operate.error("continue_script", script_id=answer["id"])
    assert error.code == "script_running"


def test_of_many_deciders_one_runs_the_call_and_continues_the_script(scripts: Scripts) -> None:
    answer = scripts.run(PAID)

    def decide(_: int) -> str:
        try:
            scripts.boss("approve_call", execution_id=answer["execution_id"])
        except CovaltError as error:
            return error.code
        return "approved"

    with ThreadPoolExecutor(8) as threads:
        codes = sorted(threads.map(decide, range(8)))
    assert codes == ["already_settled"] * 7 + ["approved"]
    assert scripts.show(answer)["state"] == "success"
    assert scripts.marks == ["a", "b", "c"]


def test_a_repeated_request_does_not_start_a_script_again(scripts: Scripts) -> None:
    call_id = "01890000-0000-7000-8000-000000000001"
    request = {
        "chat_id": "c1",
        "tool_id": "workspace:run_script",
        "args": {"script": PAID},
        "call_id": call_id,
    }
    first = scripts.operate("call_tool", **request)
    again = scripts.operate("call_tool", **request)
    assert (again["id"], again["status"], again["repeated"]) == (call_id, "pending", True)
    assert again["execution_id"] == first["execution_id"]
    scripts.approve(first)
    ended = scripts.operate("call_tool", **request)
    assert (ended["status"], ended["repeated"]) == ("success", True)
    assert scripts.marks == ["a", "b", "c"]


def test_a_script_that_cannot_start_leaves_nothing(
    scripts: Scripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(_self: Any, *_args: Any, **_more: Any) -> None:
        raise CovaltError("no interpreter", code="script_language")

    monkeypatch.setattr("covalt_git.runtime.scripts.process.ScriptProcess.__init__", missing)
    args = {"script": "1"}
    error = scripts.operate.error(
        "call_tool", chat_id="c1", tool_id="workspace:run_script", args=args
    )
    assert error.code == "script_language"
    assert scripts.refs() == []


# List, show, cancel, replay


def test_scripts_are_listed_shown_and_cancelled(scripts: Scripts) -> None:
    answer = scripts.run(PAID)
    (row,) = scripts.operate("list_scripts")["scripts"]
    assert (row["id"], row["state"], row["waits_for"]) == (answer["id"], "paused", "marks:pay")
    shown = scripts.operate("get_script", script_id=answer["id"][-8:])
    assert [(line["line"], line["status"]) for line in shown["lines"]] == [
        (1, "success"),
        (2, "pending"),
    ]
    ended = scripts.operate("cancel_script", script_id=answer["id"])
    assert (ended["state"], ended["result"]["error"]["code"]) == ("error", "cancelled")
    assert scripts.boss("list_approvals")["approvals"] == []
    assert scripts.boss.error("approve_call", execution_id=answer["execution_id"]).code == (
        "already_settled"
    )
    assert (scripts.marks, scripts.refs()) == (["a"], [])


@pytest.mark.rest
def test_a_part_of_the_id_also_names_an_ended_script(scripts: Scripts) -> None:
    first, _ = (scripts.run("tools.marks.read()")["id"] for _ in range(2))
    for part in (first[-6:], first[:20], first):
        assert scripts.operate("get_script", script_id=part)["id"] == first
        assert scripts.operate("replay_script", script_id=part)["script_id"] == first
    assert scripts.operate.error("get_script", script_id=first[:6]).code == "ambiguous"
    assert scripts.operate.error("get_script", script_id=first[-3:]).code == "unknown_script"
    waiting = scripts.run(PAID)["id"]
    assert scripts.operate("cancel_script", script_id=waiting[-6:])["state"] == "error"


def test_ended_scripts_are_listed_on_request(scripts: Scripts) -> None:
    ids = [scripts.run(source)["id"] for source in ("1", "1 / 0", PAID)]
    states = [
        (row["id"], row["state"]) for row in scripts.operate("list_scripts", ended=True)["scripts"]
    ]
    assert states == [*zip(ids, ["success", "error", "paused"], strict=True)]
    (row,) = scripts.operate("list_scripts")["scripts"]
    assert row["id"] == ids[2]
    rows = scripts.operate("list_scripts", ended=True, limit=1)["scripts"]
    assert [row["id"] for row in rows] == ids[1:]


def test_an_approval_says_which_arguments_differ_from_the_earlier_calls_of_the_tool(
    scripts: Scripts, capsys: pytest.CaptureFixture[str]
) -> None:
    source = (
        "tools.marks.mark(name='x', to='elsewhere')\n"
        "for name in ['a', 'b', 'c']:\n"
        "    tools.marks.pay(name=name, to='acme')"
    )
    answer = scripts.run(source)
    first = scripts.boss("get_approval", execution_id=answer["execution_id"])["earlier_calls"]
    assert first == {"total": 1, "of_tool": 0, "arguments": []}
    for _ in "ab":
        scripts.approve(answer)
        answer = scripts.show(answer)
    third = scripts.boss("get_approval", execution_id=answer["execution_id"])["earlier_calls"]
    compared = [{"name": "name", "same": False}, {"name": "to", "same": True}]
    assert third == {"total": 3, "of_tool": 2, "arguments": compared}
    # A reviewer who may not see the script learns of the calls of this tool only.
    reviewer = scripts.operate.as_role("reviewer")
    seen_by_reviewer = reviewer("get_approval", execution_id=answer["execution_id"])
    assert seen_by_reviewer["earlier_calls"] == third | {"total": None}
    with pytest.raises(SystemExit):
        main(
            ["-C", str(scripts.root), "--role", "boss", "approval", "show", answer["execution_id"]]
        )
    printed = capsys.readouterr().out
    assert f"line 3 of the script {answer['id']}, after 3 calls" in printed
    assert "  name: differs\n  to: same in 2 earlier calls\n" in printed


def test_values_that_only_python_takes_for_equal_differ_and_so_does_an_argument_left_out(
    scripts: Scripts,
) -> None:
    answer = scripts.run(
        "tools.marks.flag(name='a', every=1)\ntools.marks.flag(name='a', every=True)"
    )
    answer = scripts.approve(answer)
    compared = scripts.boss("get_approval", execution_id=answer["execution_id"])["earlier_calls"]
    same = {argument["name"]: argument["same"] for argument in compared["arguments"]}
    assert same == {"name": True, "every": False}
    other = scripts.run("tools.marks.pay(name='a', to='x')\ntools.marks.pay(name='a')")
    other = scripts.approve(other)
    compared = scripts.boss("get_approval", execution_id=other["execution_id"])["earlier_calls"]
    same = {argument["name"]: argument["same"] for argument in compared["arguments"]}
    assert same == {"name": True, "to": False}


def log_of(scripts: Scripts, capsys: pytest.CaptureFixture[str], *options: str) -> list[str]:
    """Return the lines of `chat log --oneline`, without ids of commits."""
    with pytest.raises(SystemExit):
        main(["-C", str(scripts.root), "chat", "log", "c1", "--oneline", *options])
    lines = capsys.readouterr().out.splitlines()
    return [re.sub(r"\b[0-9a-f]{12}( \(\*main\))?  ", "", line) for line in lines]


def test_the_log_has_the_calls_of_a_script_below_it(
    scripts: Scripts, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = scripts.run(PAID)
    scripts.operate("call_tool", chat_id="c1", tool_id="marks:read", args={})
    later = timestamps.written(datetime.now(UTC) + timedelta(seconds=190))
    with monkeypatch.context() as patched:
        patched.setattr("covalt_git.workspaces.writer.commits.now", lambda: later)
        scripts.approve(answer)
    mark = f"  (script {answer['id'][-8:]})"
    assert log_of(scripts, capsys) == [
        "workspace:run_script success",
        "  └ marks:mark success",
        "  └ marks:pay success  (waited for approval, 3 min)",
        "marks:read success",
        f"marks:mark success{mark}",
    ]
    assert log_of(scripts, capsys, "--graph")[1].endswith(f"  marks:mark success{mark}")
    waits = [line["waited_s"] for line in scripts.show(answer)["lines"]]
    assert (waits[0], waits[2]) == (None, None)
    assert waits[1] >= 180


@pytest.mark.rest
def test_the_log_has_a_call_below_its_own_script_only_and_where_a_script_waits(
    scripts: Scripts, capsys: pytest.CaptureFixture[str]
) -> None:
    source = "tools.marks.read()\ntools.marks.pay(name='b')"
    first, second = scripts.run(source), scripts.run(source)
    scripts.approve(first)
    marks = [f"  (script {answer['id'][-8:]})" for answer in (first, second)]
    waiting = (
        f"script {second['id'][-8:]} on main waits at line 2 for the approval of marks:pay:"
        f" covalt-git approval approve {second['execution_id']}"
    )
    assert [re.sub(r", \d+ s", "", line) for line in log_of(scripts, capsys)] == [
        "workspace:run_script success",
        "  └ marks:pay success  (waited for approval)",
        f"marks:read success{marks[1]}",
        f"marks:read success{marks[0]}",
        waiting,
    ]


@pytest.mark.rest
def test_a_script_of_hidden_tools_does_not_exist_for_a_role(scripts: Scripts) -> None:
    answer = scripts.run(PAID)
    config = CONFIG.replace("  boss:", '  guest: {allow: ["workspace.*"]}\n  boss:')
    (scripts.root / "covalt.yaml").write_text(config)
    guest = scripts.operate.as_role("guest")
    assert guest("list_scripts")["scripts"] == []
    assert guest.error("get_script", script_id=answer["id"]).code == "unknown_script"
    scripts.approve(answer)
    assert guest.error("get_script", script_id=answer["id"]).code == "unknown_script"
    assert guest.error("get_call", chat_id="c1", call_id=answer["id"]).code == "unknown_call"
    assert "marks" not in json.dumps(seen(guest))


def seen(role: Operations) -> list[Any]:
    """Return everything that a role sees of the chat's commits and calls."""
    rows = role("list_manifests", chat_id="c1", changes=True)["manifests"]
    return [
        [{**row, "changes": None} for row in rows],  # files have no access of their own
        [
            role("get_workspace_manifest", chat_id="c1", manifest=row["id"])["record"]
            for row in rows
        ],
        role("list_calls", chat_id="c1"),
        role("read_conversation", chat_id="c1"),
        role("export_conversation", chat_id="c1"),
        role("list_scripts", ended=True),
    ]


@pytest.mark.parametrize(
    "source",
    [
        "tools.marks.pay(name='b')",
        rest("tools.marks.mark(name=3)"),
        rest("tools.marks.raed()"),
        "tools.search(query='marks')",
        rest("tools.describe.tool(path='marks.mark')['name']"),
        "try:\n    tools.marks.raed()\nexcept Exception as e:\n    print(e)",
        # Named, and never called.
        rest("if False:\n    tools.marks.mark(name='b')"),
        "# marks.mark\n1",
        "part = 'mark'\nf'tools.{part}s.{part}'\ntools.workspace.list_files()  # marks",
    ],
)
def test_a_role_learns_no_hidden_tool_from_a_script(scripts: Scripts, source: str) -> None:
    config = CONFIG.replace("  boss:", '  guest: {allow: ["workspace.*"]}\n  boss:')
    (scripts.root / "covalt.yaml").write_text(config)
    guest = scripts.operate.as_role("guest")
    answer = scripts.run(source)
    assert answer["id"] in json.dumps(scripts.operate("list_scripts", ended=True))
    for is_last in (answer["status"] != "pending", True):
        texts = map(json.dumps, seen(guest))
        assert [text for text in texts if "marks" in text] == []
        assert guest.error("get_script", script_id=answer["id"]).code == "unknown_script"
        if not is_last:
            scripts.approve(answer)


def test_a_role_sees_its_own_script_that_named_no_tool(scripts: Scripts) -> None:
    answer = scripts.run("tools.marks.hidden(name='a')")
    assert answer["result"]["error"]["code"] == "unknown_tool"
    assert scripts.operate("get_script", script_id=answer["id"])["state"] == "error"
    assert "marks" in json.dumps(scripts.boss("export_conversation", chat_id="c1"))


def test_a_toolset_cannot_have_the_name_that_describes_tools(scripts: Scripts) -> None:
    folder = scripts.root / "toolsets/describe"
    folder.mkdir()
    (folder / "toolset.yaml").write_text('id: describe\nname: D\nversion: "1"\n')
    problems = read_project(scripts.root).problems
    assert "CG204" in {problem.code for problem in problems}


def test_only_the_principal_of_a_script_continues_it(scripts: Scripts) -> None:
    answer = scripts.run(PAID)
    config = CONFIG.replace("  boss:", '  other: {allow: ["marks.*", "workspace.*"]}\n  boss:')
    (scripts.root / "covalt.yaml").write_text(config)
    other = scripts.operate.as_role("other")
    for action in ("continue_script", "cancel_script"):
        assert other.error(action, script_id=answer["id"]).code == "forbidden"


def test_a_replay_executes_nothing_and_names_the_first_difference(scripts: Scripts) -> None:
    answer = scripts.run("[tools.marks.mark(name=str(i)) for i in range(3)]")
    same = scripts.operate("replay_script", script_id=answer["id"])
    assert (same["calls"], same["divergence"]) == (3, None)
    assert scripts.marks == ["0", "1", "2"]


def test_a_replay_gives_the_script_the_reason_of_a_denial_again(scripts: Scripts) -> None:
    source = "try:\n    tools.marks.pay(name='z')\nexcept Exception as e:\n    r = str(e)\nr"
    ended = scripts.deny(scripts.run(source), "too much")
    assert "too much" in ended["result"]["value"]
    same = scripts.operate("replay_script", script_id=ended["id"])
    assert same["divergence"] is None


# Allowances


LOOP = "for i in range(5):\n    tools.marks.pay(name=str(i), to=args['to'])\n'done'"


def test_the_next_calls_of_a_tool_can_be_allowed_and_are_counted(scripts: Scripts) -> None:
    answer = scripts.run(LOOP, to="x")
    waiting = scripts.approve(answer, next_calls=2)
    assert scripts.marks == ["0", "1", "2"]
    assert (waiting["state"], waiting["allowances"][0]["left"]) == ("paused", 0)
    waived = [line["waived_by"] for line in waiting["lines"]]
    assert waived == [None, answer["execution_id"], answer["execution_id"], None]
    assert record(scripts, waiting["lines"][1]["call_id"]).waived_by == answer["execution_id"]
    ended = scripts.approve(waiting, next_calls=100)
    assert (ended["state"], len(scripts.marks)) == ("success", 5)


def test_an_allowance_can_bind_arguments(scripts: Scripts) -> None:
    source = "for to in ['x', 'x', 'y']:\n    tools.marks.pay(name=to, to=to)"
    waiting = scripts.approve(scripts.run(source), next_calls=5, same=["to"])
    assert (waiting["state"], scripts.marks) == ("paused", ["x", "x"])
    assert waiting["allowances"][0]["same"] == {"to": "x"}


@pytest.mark.rest
def test_bound_arguments_are_compared_as_json(scripts: Scripts) -> None:
    source = "for value in [1, True]:\n    tools.marks.flag(name='x', every=value)"
    waiting = scripts.approve(scripts.run(source), next_calls=5, same=["every"])
    assert (waiting["state"], scripts.marks) == ("paused", ["x"])


def test_no_calls_are_allowed_whose_arguments_name_a_commit(scripts: Scripts) -> None:
    """A branch can move between them."""
    scripts.run("tools.marks.mark(name='a')")
    answer = scripts.run("tools.workspace.restore(manifest='main')")
    request = {"execution_id": answer["execution_id"], "next_calls": 2, "same": ["manifest"]}
    assert "means a commit" in scripts.boss.error("approve_call", **request).message


def test_an_allowance_is_for_one_tool_of_one_script(scripts: Scripts) -> None:
    source = "tools.marks.pay(name='a')\ntools.marks.peek_twice()"
    waiting = scripts.approve(scripts.run(source), next_calls=5)
    assert (waiting["state"], waiting["waits_for"]) == ("paused", "marks:peek-twice")
    other = scripts.run("tools.marks.pay(name='a')")
    assert other["status"] == "pending"


def test_an_allowance_ends_when_the_tool_changes(scripts: Scripts) -> None:
    waiting = scripts.approve(scripts.run("tools.marks.peek_twice()\n" + LOOP, to="x"))
    waiting = scripts.approve(waiting, next_calls=1)
    code = scripts.root / "toolsets/marks/tools/marks.py"
    code.write_text(code.read_text() + "\n# changed\n")
    error = scripts.boss.error("approve_call", execution_id=waiting["execution_id"], next_calls=9)
    assert error.code == "asked_again"
    assert scripts.show(waiting)["allowances"][0]["left"] == 0


def test_the_principal_of_a_script_allows_none_of_its_next_calls(scripts: Scripts) -> None:
    answer = scripts.run(LOOP, to="x")
    request = {"execution_id": answer["execution_id"], "next_calls": 3}
    assert scripts.operate.error("approve_call", **request).code == "may_not_allow"
    assert scripts.marks == []
    scripts.operate("approve_call", execution_id=answer["execution_id"])
    assert scripts.marks == ["0"]


def test_a_principal_is_the_same_over_mcp_and_the_api(scripts: Scripts) -> None:
    scripts.operate = scripts.operate.as_role("agent")
    answer = scripts.run(LOOP, to="x")
    api = Api.of(scripts.root, role="agent")
    sent = {"execution_id": answer["execution_id"], "next_calls": 3}
    refused = api.client().post("/api/approve_call", json=sent, headers=BEARER, base_url=HOME)
    assert refused.get_json()["error"] == "may_not_allow"
    assert scripts.marks == []


def test_next_calls_need_a_script(scripts: Scripts) -> None:
    args = {"name": "a"}
    pending = scripts.operate("call_tool", chat_id="c1", tool_id="marks:pay", args=args)
    request = {"execution_id": pending["execution_id"], "next_calls": 3}
    assert "not called by a script" in scripts.boss.error("approve_call", **request).message
    assert scripts.marks == []
