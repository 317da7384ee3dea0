"""Calls over the API: made, followed while they run, and looked at afterwards."""

from __future__ import annotations

from covalt_git.models.calls import ToolCall
from covalt_git.names import new_id
from tests.api_client import BEARER, HOME, Api, configure, refused
from tests.workspaces.stores import git


def test_a_call_answers_with_its_row_and_what_it_changed(api: Api) -> None:
    told = api.write("a.txt", "1")

    assert told.keys() >= ToolCall.model_fields.keys()
    assert (told["status"], told["error"]) == ("success", None)
    assert told["result"] == {"written": "a.txt", "size": 1}
    assert told["render_plan"]["config"]["file"] == "workspace:a.txt"
    assert [(one["path"], one["kind"]) for one in told["changes"]] == [("a.txt", "added")]
    assert told["post_manifest_id"] == git(api.store, "rev-parse", "main").strip()
    assert told["by"] == "local"
    assert told["toolset"]["id"] == "app-builder"
    assert told["sandbox"] is not None
    assert api.get("get_call", chat_id="c1", call_id=told["id"]) == told


def test_a_chart_is_made_of_an_uploaded_table(api: Api) -> None:
    table = (api.root / "toolsets/data-lab/assets/weather.csv").read_bytes()
    api.upload(("weather.csv", table))
    told = api.call("data-lab:summarize", path="weather.csv")

    assert told["status"] == "success"
    assert told["render_plan"]["renderer"] == "html"
    assert told["render_plan"]["artifact"]["size"] > 0
    assert told["result"]["rows"] == told["render_plan"]["config"]["data"]["rows"]


def test_a_tool_that_fails_is_an_answer_with_its_reason(api: Api) -> None:
    told = api.call("app-builder:read_file", path="gone.txt")

    assert told["status"] == "error"
    assert told["error"].startswith("tool_raised: ")
    assert told["error_detail"]["code"] == "tool_raised"
    assert "read_file" in told["error_detail"]["traceback"]
    assert told["result"] is None


def test_arguments_that_do_not_fit_make_no_call(api: Api) -> None:
    told = refused(
        api.tell("call_tool", chat_id="c1", tool_id="app-builder:write_file", args={"path": 1}),
        400,
        "invalid_arguments",
    )

    assert {problem["path"] for problem in told["problems"]} == {"$", "$.path"}
    assert api.get("list_calls", chat_id="c1") == {"calls": [], "more": False}


def test_numbers_that_json_cannot_hold_are_refused(api: Api) -> None:
    response = api.client().post(
        "/api/call_tool",
        base_url=HOME,
        data=b'{"chat_id": "c1", "tool_id": "x:y", "args": {"n": 9007199254740993}}',
        content_type="application/json",
        headers=BEARER,
    )

    refused(response, 400, "invalid_request")


def test_calls_are_listed_newest_first_and_in_pages(api: Api) -> None:
    made = [api.call("app-builder:list_files")["id"] for _ in range(3)]
    first = api.get("list_calls", chat_id="c1", limit=2)
    second = api.get("list_calls", chat_id="c1", limit=2, before=made[1])

    assert [call["id"] for call in first["calls"]] == [made[2], made[1]]
    assert [call["id"] for call in second["calls"]] == [made[0]]
    assert (first["more"], second["more"]) == (True, False)
    assert "result" not in first["calls"][0]
    refused(api.ask("list_calls", chat_id="c1", before="x"), 404, "unknown_call")


def test_a_finished_call_is_not_sent_again_for_its_etag(api: Api) -> None:
    call = api.write("a.txt", "1")
    asked = {"chat_id": "c1", "call_id": call["id"]}
    etag = api.ask("get_call", **asked).headers["ETag"]

    assert api.ask("get_call", headers={"If-None-Match": etag}, **asked).status_code == 304
    refused(api.ask("get_call", chat_id="c1", call_id="x"), 404, "unknown_call")


def test_a_hidden_tools_calls_do_not_exist(api: Api) -> None:
    hidden = api.write("a.txt", "1")
    seen = api.call("app-builder:list_files")
    api.write("b.txt", "1")
    configure(api.root, 'default_role: r\nroles: {r: {allow: ["app-builder.list_files"]}}')

    assert [call["id"] for call in api.get("list_calls", chat_id="c1", limit=1)["calls"]] == [
        seen["id"]
    ]
    assert api.get("list_calls", chat_id="c1", limit=1)["more"] is False
    refused(api.ask("get_call", chat_id="c1", call_id=hidden["id"]), 404, "unknown_call")
    refused(api.ask("list_calls", chat_id="c1", before=hidden["id"]), 404, "unknown_call")


def test_a_call_made_again_under_its_id_is_answered_as_it_stands(api: Api) -> None:
    given = new_id()
    body = {"chat_id": "c1", "tool_id": "app-builder:write_file", "call_id": given}
    args = {"path": "a.txt", "content": "1"}
    first = api.post("call_tool", **body, args=args)
    again = api.post("call_tool", **body, args=args)

    assert (first["id"], first["repeated"]) == (given, False)
    assert again == first | {"repeated": True}
    refused(api.tell("call_tool", **body, args=args | {"content": "2"}), 409, "call_id_taken")
    refused(api.tell("call_tool", **body | {"call_id": "x"}, args=args), 400, "bad_name")
    assert len(api.get("list_calls", chat_id="c1")["calls"]) == 1
