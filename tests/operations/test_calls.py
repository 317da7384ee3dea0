"""Calls of tools, and the approvals that some of them need."""

from typing import Any

from tests.api_client import configure
from tests.operations_client import Operations

ROLES = """\
default_role: worker
roles:
  worker: {allow: ["app-builder.**"]}
  boss: {approve: ["app-builder.run_command"]}
  stranger: {allow: ["data-lab.**"]}
"""


def call(operate: Operations, tool: str, /, **args: object) -> Any:
    return operate("call_tool", chat_id="c1", tool_id=f"app-builder:{tool}", args=args)


def test_calls_are_listed_newest_first_and_in_pages(
    operate: Operations, ids: dict[str, str]
) -> None:
    operate("create_chat", chat_id="new")
    request = {"chat_id": "new", "tool_id": "app-builder:list_files", "args": {}}
    made = [operate("call_tool", **request)["id"] for _ in range(3)]
    first = operate("list_calls", chat_id="new", limit=2)
    second = operate("list_calls", chat_id="new", limit=2, before=made[1])

    assert [one["id"] for one in first["calls"]] == [made[2], made[1]]
    assert [one["id"] for one in second["calls"]] == [made[0]]
    assert (first["more"], second["more"]) == (True, False)
    assert "result" not in first["calls"][0]
    assert operate.error("list_calls", chat_id="new", before=ids["call"]).code == "unknown_call"


def test_calls_of_hidden_tools_are_not_listed(operate: Operations) -> None:
    seen = operate("call_tool", chat_id="c1", tool_id="data-lab:load_sample", args={})
    call(operate, "list_files")
    listed = operate.as_role("guest")("list_calls", chat_id="c1", limit=1)

    assert [one["id"] for one in listed["calls"]] == [seen["id"]]
    assert listed["more"] is False


# Approvals


def ask(operate: Operations, command: str = "echo hello > said.txt") -> str:
    """Make a call that requires approval; return the id of its approval."""
    told = call(operate, "run_command", command=command)
    assert told["status"] == "pending"
    return str(told["execution_id"])


def approvals(operate: Operations, **request: object) -> Any:
    return operate("list_approvals", **request)["approvals"]


def test_pending_calls_are_listed_with_what_a_reviewer_needs(
    operate: Operations, ids: dict[str, str]
) -> None:
    first, second = ask(operate), ask(operate, "ls")
    rows = approvals(operate)

    assert [row["execution_id"] for row in rows] == [ids["approval"], first, second]
    assert rows[1]["args"] == {"command": "echo hello > said.txt"}
    assert (rows[1]["by"], rows[1]["branch"], rows[1]["chat_id"]) == ("local", "main", "c1")
    assert (len(rows[1]["reasons"]), rows[1]["may_settle"]) == (1, True)
    assert rows[1]["created_at"] < rows[1]["expires_at"]
    waiting = operate("get_chat", chat_id="c1")["status"]["waiting"]
    assert waiting[0]["execution_id"] == first
    assert operate.error("list_approvals", state="later").code == "invalid_request"


def test_an_approved_call_runs_once(operate: Operations) -> None:
    execution_id = ask(operate)
    done = operate("approve_call", execution_id=execution_id)
    (row,) = approvals(operate, state="approved")

    assert (done["status"], done["execution_id"]) == ("success", execution_id)
    assert [one["path"] for one in done["changes"]] == ["said.txt"]
    assert (operate.workspace("c1") / "said.txt").read_text() == "hello\n"
    assert (row["decided_by"], row["execution_id"]) == ("local", execution_id)
    assert row in approvals(operate, state="all")
    for name in ("approve_call", "deny_call"):
        assert operate.error(name, execution_id=execution_id).code == "already_settled"


def test_a_call_is_asked_again_when_the_files_or_the_tool_changed(operate: Operations) -> None:
    execution_id = ask(operate)
    (operate.workspace("c1") / "new.txt").write_text("1")
    shown = operate("get_approval", execution_id=execution_id)
    error = operate.error("approve_call", execution_id=execution_id)
    old = operate("get_approval", execution_id=execution_id)
    again = operate("get_approval", execution_id=old["superseded_by"])

    assert [(one["path"], one["kind"]) for one in shown["changes"]] == [("new.txt", "added")]
    assert (error.code, old["state"]) == ("asked_again", "superseded")
    assert again["execution_id"] in error.hint
    assert (again["changes"], again["tool_changed"]) == ([], False)

    file = operate.root / "toolsets/app-builder/tools/shell.py"
    file.write_text(file.read_text() + "\n# another one\n")
    assert operate("get_approval", execution_id=again["execution_id"])["tool_changed"] is True
    error = operate.error("approve_call", execution_id=again["execution_id"])
    assert error.code == "asked_again"


def test_roles_call_approve_and_see_as_they_are_allowed(operate: Operations) -> None:
    configure(operate.root, ROLES)
    execution_id = ask(operate)
    boss, stranger = operate.as_role("boss"), operate.as_role("stranger")

    def may_settle(who: Operations) -> Any:
        return {one["execution_id"]: one["may_settle"] for one in approvals(who)}.get(execution_id)

    assert [may_settle(who) for who in (operate, boss, stranger)] == [False, True, None]
    assert stranger("get_chat", chat_id="c1")["status"]["waiting"] == []
    for name in ("approve_call", "deny_call"):
        assert operate.error(name, execution_id=execution_id).code == "may_not_approve"
        hidden = stranger.error(name, execution_id=execution_id)
        assert hidden.code == "unknown_approval"
        assert execution_id not in hidden.hint
    assert boss("get_approval", execution_id=execution_id)["tool_changed"] is False
    assert boss("approve_call", execution_id=execution_id)["status"] == "success"
