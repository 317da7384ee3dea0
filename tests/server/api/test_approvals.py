"""Approvals over the API: what waits, what it is about, and settling it once."""

from __future__ import annotations

from typing import Any

from tests.api_client import Api, configure, refused

ROLES = """\
default_role: worker
roles:
  worker: {allow: ["app-builder.**"]}
  boss: {approve: ["app-builder.run_command"]}
  stranger: {allow: ["data-lab.**"]}
"""


def ask(api: Api, command: str = "echo hello > said.txt") -> str:
    """Make a call that waits; return the id of its approval."""
    told = api.call("app-builder:run_command", command=command)
    assert told["status"] == "pending"
    return str(told["execution_id"])


def listed(api: Api, **query: object) -> list[Any]:
    return list(api.get("list_approvals", **query)["approvals"])


def test_what_waits_is_listed_with_all_that_a_person_has_to_know(api: Api) -> None:
    first, second = ask(api), ask(api, "ls")
    rows = listed(api)

    assert [row["execution_id"] for row in rows] == [first, second]
    assert rows[0]["args"] == {"command": "echo hello > said.txt"}
    assert rows[0]["reasons"] == ["the toolset asks"]
    assert (rows[0]["by"], rows[0]["branch"], rows[0]["chat_id"]) == ("local", "main", "c1")
    assert rows[0]["may_settle"] is True
    assert rows[0]["created_at"] < rows[0]["expires_at"]
    assert api.get("get_chat", chat_id="c1")["status"]["waiting"][0]["execution_id"] == first


def test_an_approved_call_runs_once(api: Api) -> None:
    execution_id = ask(api)
    done = api.post("approve_call", execution_id=execution_id)

    assert done["status"] == "success"
    assert done["execution_id"] == execution_id
    assert [one["path"] for one in done["changes"]] == ["said.txt"]
    assert (api.workspace / "said.txt").read_text() == "hello\n"
    assert listed(api) == []
    (row,) = listed(api, state="approved")
    assert (row["decided_by"], row["execution_id"]) == ("local", execution_id)
    assert listed(api, state="all") == [row]
    refused(api.tell("approve_call", execution_id=execution_id), 409, "already_settled")
    refused(api.tell("deny_call", execution_id=execution_id), 409, "already_settled")


def test_a_denied_call_never_runs(api: Api) -> None:
    execution_id = ask(api)
    done = api.post("deny_call", execution_id=execution_id)

    assert (done["status"], done["error"]) == ("error", "denied: local denied it")
    assert [*api.workspace.iterdir()] == []
    assert api.get("get_approval", execution_id=execution_id)["state"] == "denied"
    refused(api.tell("approve_call", execution_id=execution_id), 409, "already_settled")


def test_what_changed_since_is_told_and_asked_again(api: Api) -> None:
    execution_id = ask(api)
    (api.workspace / "new.txt").write_text("1")
    shown = api.get("get_approval", execution_id=execution_id)
    told = refused(api.tell("approve_call", execution_id=execution_id), 409, "asked_again")
    (row,) = listed(api)

    assert [(one["path"], one["kind"]) for one in shown["changes"]] == [("new.txt", "added")]
    assert shown["tool_changed"] is False
    assert row["execution_id"] in told["hint"]
    old = api.get("get_approval", execution_id=execution_id)
    assert (old["state"], old["superseded_by"]) == ("superseded", row["execution_id"])
    assert api.get("get_approval", execution_id=row["execution_id"])["changes"] == []
    assert api.post("approve_call", execution_id=row["execution_id"])["status"] == "success"


def test_a_tool_that_changed_since_is_told(api: Api) -> None:
    execution_id = ask(api)
    file = api.root / "toolsets/app-builder/tools/shell.py"
    file.write_text(file.read_text() + "\n# another one\n")

    assert api.get("get_approval", execution_id=execution_id)["tool_changed"] is True
    refused(api.tell("approve_call", execution_id=execution_id), 409, "asked_again")


def test_a_branch_that_is_not_active_is_told_from_its_own_files(api: Api) -> None:
    api.write("a.txt", "1")
    execution_id = ask(api)
    api.post("create_branch", chat_id="c1", name="idea")
    api.post("switch_branch", chat_id="c1", branch="idea")
    api.write("b.txt", "1")

    assert api.get("get_approval", execution_id=execution_id)["changes"] == []
    refused(api.tell("approve_call", execution_id=execution_id), 400, "invalid_request")


def test_an_approval_changes_its_etag_when_it_is_settled(api: Api) -> None:
    execution_id = ask(api)
    etag = api.ask("get_approval", execution_id=execution_id).headers["ETag"]
    same = api.ask("get_approval", execution_id=execution_id, headers={"If-None-Match": etag})
    api.post("deny_call", execution_id=execution_id)

    assert same.status_code == 304
    assert api.ask("get_approval", execution_id=execution_id).headers["ETag"] != etag


def test_whoever_may_only_approve_does_and_whoever_may_only_call_does_not(api: Api) -> None:
    configure(api.root, ROLES)
    execution_id = ask(api)
    boss = Api.of(api.root, role="boss")

    assert listed(api)[0]["may_settle"] is False
    refused(api.tell("approve_call", execution_id=execution_id), 403, "may_not_approve")
    refused(api.tell("deny_call", execution_id=execution_id), 403, "may_not_approve")
    assert listed(boss)[0]["may_settle"] is True
    assert boss.get("get_approval", execution_id=execution_id)["tool_changed"] is False
    assert boss.post("approve_call", execution_id=execution_id)["status"] == "success"


def test_an_approval_of_a_hidden_tool_does_not_exist(api: Api) -> None:
    configure(api.root, ROLES)
    execution_id = ask(api)
    stranger = Api.of(api.root, role="stranger")

    assert listed(stranger) == []
    assert stranger.get("get_chat", chat_id="c1")["status"]["waiting"] == []
    refused(stranger.ask("get_approval", execution_id=execution_id), 404, "unknown_approval")
    for operation in ("approve_call", "deny_call"):
        hidden = refused(
            stranger.tell(operation, execution_id=execution_id), 404, "unknown_approval"
        )
        assert execution_id not in hidden["hint"]


def test_an_approval_that_is_none_is_unknown(api: Api) -> None:
    for name in ("", "x", "../x", "a\0b"):
        refused(api.ask("get_approval", execution_id=name), 404, "unknown_approval")
    refused(api.ask("list_approvals", state="later"), 400, "invalid_request")


def test_an_approval_is_there_after_the_index_is_gone(api: Api) -> None:
    execution_id = ask(api)
    for file in (api.root / "data").glob("index.db*"):
        file.unlink()

    assert [row["execution_id"] for row in listed(api)] == [execution_id]
