"""Undo of one call: by any name of the call, for roles that may restore and see it, with the difference."""

from typing import Any

import pytest

from tests.operations_client import Operations

ROLES = """\
version: 1
roles:
  restorer: {allow: ["workspace.*"], approve: ["workspace.*"]}
  both: {allow: ["workspace.*", "app-builder.*"], approve: ["workspace.*"]}
  limited: {allow: ["workspace.*", "app-builder.*"]}
  here: {allow: ["workspace.*", "app-builder.*"], deny: ["workspace.checkout"], approve: ["workspace.*"]}
approvals:
  - {pattern: "workspace.restore", require: true}
"""

ONLY_RESTORES = """\
version: 1
roles:
  restorer: {allow: ["workspace.*", "app-builder.*"], deny: ["workspace.write_file", "workspace.read_file"]}
"""


@pytest.fixture
def called(new: Operations) -> tuple[Operations, Any]:
    """A chat, new, in which a call changed a.txt, and the record of the call."""
    new.commit("new", **{"a.txt": "one\ntwo\nthree\n"})
    args = {"path": "a.txt", "content": "ONE\ntwo\nthree\n"}
    answer = new("call_tool", chat_id="new", tool_id="app-builder:write_file", args=args)
    new.commit("new", **{"a.txt": "ONE\ntwo\nthree\nfour\n"})
    return new, answer


def test_a_call_is_undone_by_each_of_its_names(called: tuple[Operations, Any]) -> None:
    operate, call = called
    names = (call["id"], call["id"][-12:], call["post_manifest_id"], "HEAD~1")
    previews = [operate("undo_call", chat_id="new", call=name, dry_run=True) for name in names]
    assert all(preview == previews[0] for preview in previews)
    assert previews[0]["manifest_id"] is None
    (change,) = previews[0]["changes"]
    assert change["patch"].splitlines()[-5:] == ["-ONE", "+one", " two", " three", " four"]

    done = operate("undo_call", chat_id="new", call=call["id"])
    assert (done["status"], done["branch"], done["call_id"]) == ("undone", "main", call["id"])
    assert done["changes"] == previews[0]["changes"]
    assert (operate.workspace("new") / "a.txt").read_text() == "one\ntwo\nthree\nfour\n"
    detail = operate("get_workspace_manifest", chat_id="new", manifest=done["manifest_id"])
    undone = {"call_id": call["id"], "manifest_id": call["post_manifest_id"]}
    assert (detail["source"], detail["record"]["undone"]) == ("restore", undone)
    again = operate("undo_call", chat_id="new", call=call["id"])
    assert (again["status"], again["manifest_id"]) == ("nothing_to_undo", done["manifest_id"])


def test_a_conflict_has_the_lines_and_the_decisions(called: tuple[Operations, Any]) -> None:
    operate, call = called
    operate.commit("new", **{"a.txt": "mine\n"})
    stopped = operate("undo_call", chat_id="new", call=call["id"])
    assert (stopped["status"], stopped["changes"]) == ("conflicts", [])
    (conflict,) = stopped["conflicts"]
    assert (conflict["path"], conflict["decisions"]) == ("a.txt", ["ours", "theirs", "union"])
    assert "mine" in conflict["lines"]
    request = {"chat_id": "new", "call": call["id"]}
    kept = operate("undo_call", **request, conflicts="ours")
    assert (kept["status"], kept["changes"]) == ("kept", [])
    choice = {"path": "a.txt", "decision": "theirs"}
    operate("undo_call", **request, resolutions=[choice])
    assert (operate.workspace("new") / "a.txt").read_text() == "one\ntwo\nthree\n"


def test_a_content_is_a_write_and_the_text_of_a_conflict_is_a_read(
    called: tuple[Operations, Any],
) -> None:
    operate, call = called
    operate.commit("new", **{"a.txt": "mine\n"})
    (operate.root / "covalt.yaml").write_text(ONLY_RESTORES)
    request = {"chat_id": "new", "call": call["id"]}
    restorer = operate.as_role("restorer")
    edited = {"path": "a.txt", "decision": "content", "content": "new\n"}
    assert restorer.error("undo_call", **request, resolutions=[edited]).code == "forbidden"
    text = {"dry_run": True, "text_of": "a.txt"}
    assert restorer.error("undo_call", **request, **text).code == "forbidden"
    assert restorer("undo_call", **request, dry_run=True)["conflicts"][0]["text"] is None

    (operate.root / "covalt.yaml").write_text(ROLES)
    both = operate.as_role("both")
    (conflict,) = both("undo_call", **request, **text)["conflicts"]
    assert "<<<<<<< main\nmine\n" in conflict["text"]
    both("undo_call", **request, resolutions=[edited])
    assert (operate.workspace("new") / "a.txt").read_text() == "new\n"


def test_only_calls_have_an_undo(called: tuple[Operations, Any]) -> None:
    operate, _ = called
    assert operate.error("undo_call", chat_id="new", call="HEAD").code == "unknown_call"


def test_a_role_undoes_only_calls_that_it_sees_and_without_a_rule_that_asks(
    called: tuple[Operations, Any],
) -> None:
    operate, call = called
    (operate.root / "covalt.yaml").write_text(ROLES)
    request = {"chat_id": "new", "call": call["id"]}
    hidden = operate.as_role("restorer").error("undo_call", **request)
    assert (hidden.code, hidden.http_status) == ("unknown_call", 404)
    asked = operate.as_role("limited").error("undo_call", **request)
    assert asked.code == "forbidden"
    assert operate.as_role("both")("undo_call", **request)["status"] == "undone"


def test_a_restore_is_refused_if_another_branch_is_active(called: tuple[Operations, Any]) -> None:
    operate, _ = called
    operate("create_branch", chat_id="new", name="idea")
    request = {"chat_id": "new", "manifest": "HEAD~2"}
    refused = operate.error("restore_workspace", **request, on_branch="idea")
    assert (refused.code, refused.http_status) == ("moved", 409)
    assert operate("restore_workspace", **request, on_branch="main")["made"]


def test_another_branch_needs_the_right_to_check_it_out(called: tuple[Operations, Any]) -> None:
    operate, call = called
    operate("create_branch", chat_id="new", name="idea")
    (operate.root / "covalt.yaml").write_text(ROLES)
    request = {"chat_id": "new", "call": call["id"]}
    here = operate.as_role("here")
    for dry_run in (True, False):
        assert (
            here.error("undo_call", **request, branch="idea", dry_run=dry_run).code == "forbidden"
        )
    assert operate.as_role("both")("undo_call", **request, branch="idea")["branch"] == "idea"
    assert here("undo_call", **request, branch="main")["status"] == "undone"
