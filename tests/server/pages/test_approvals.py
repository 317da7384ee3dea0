"""Page of an approval: what led to the call, what it declares, and its command as text."""

from dataclasses import replace

from tests.api_client import Api
from tests.server.visitor import Visitor


def test_a_reviewer_sees_the_message_the_effects_and_the_command_as_text(
    visitor: Visitor, api: Api
) -> None:
    text = "Please clean up the build folder"
    message = api.post("add_message", chat_id="c1", text=text)["message_id"]
    args = {"command": 'ls "a"\nrm -rf build\n', "cwd": "."}
    tool = {"tool_id": "app-builder:run_command", "args": args, "message_id": message}
    call = api.post("call_tool", chat_id="c1", **tool)
    page = visitor.open(f"/approvals/{call['execution_id']}")

    assert page.title.startswith('Run command ls "a" ⏎ rm -rf build')
    assert text in page.text
    assert page.link("Message of user") == f"/chats/c1/messages/{message}"
    assert "Its definition says that it " in page.text
    assert "can delete or overwrite" in page.text
    # The toolset may be the user's own.
    assert "author" not in page.text.partition("Approvals")[2]
    assert 'ls "a" rm -rf build {' in page.text.replace("\n", " ")
    detail = api.get("get_approval", execution_id=call["execution_id"])
    expected = {"id": message, "role": "user", "text": text, "ref": None}
    assert detail["message"] == expected


def test_a_call_has_the_title_of_its_tool_on_all_pages(visitor: Visitor, api: Api) -> None:
    (api.root / "toolsets/clock").mkdir()
    (api.root / "toolsets/clock/toolset.yaml").write_text(
        'id: clock\nname: Clock\nversion: "1"\ntools:\n'
        "  - {id: delta_time, name: Current Time, requires_confirmation: true, input_schema: {type: object},"
        " http: {url: 'http://127.0.0.1:9/'}}\n"
    )
    api.post("add_grant", toolset_id="clock", kind="network", hosts=["127.0.0.1:9"])
    call = api.call("clock:delta_time")
    pages = [f"/approvals/{call['execution_id']}", f"/chats/c1/calls/{call['id']}", "/chats/c1"]
    for address in ["/tools/clock:delta_time", "/approvals", *pages]:
        text = visitor.open(address).text
        assert "Current Time" in text, address
        assert "Delta time" not in text, address


def test_an_approval_without_a_message_names_none(visitor: Visitor, api: Api) -> None:
    call = api.call("app-builder:run_command", command="ls")
    detail = api.get("get_approval", execution_id=call["execution_id"])
    assert detail["message"] is None
    assert "Message of" not in visitor.open(f"/approvals/{call['execution_id']}").text


def test_a_toolset_without_accepted_tools_says_what_to_do_next(visitor: Visitor, api: Api) -> None:
    (api.root / "toolsets/gear").mkdir()
    (api.root / "toolsets/gear/toolset.yaml").write_text(
        'id: gear\nname: Gear\nversion: "1"\n'
        "mcp_servers: [{id: disk, command: python3, args: [server.py]}]\n"
    )
    page = visitor.open("/toolsets/gear")
    assert page.link("Grant what its servers need") == "#grants"
    assert "Grant all" in page.text.partition("Next")[0]

    api.post("add_grant", toolset_id="gear", kind="process", name="disk", hosts=[])
    page = visitor.open("/toolsets/gear")
    assert page.link("Ask its servers for their tools") == "#source-disk"
    for path in ("/", "/toolsets", "/toolsets/gear"):
        text = visitor.open(path).text
        assert "ask its servers for their tools" in text, path
    assert "gear enabled" not in " ".join(visitor.open("/toolsets").text.split()).lower()


def test_the_reason_of_a_decision_is_recorded_and_a_denied_call_has_no_duration(
    visitor: Visitor, api: Api
) -> None:
    for page_of in ("/approvals/{}", "/chats/c1"):
        call = api.call("app-builder:run_command", command="ls")
        page = visitor.open(page_of.format(call["execution_id"]))
        form = next(form for form in page.forms if "reason" in form.fields)
        deny = f"/approvals/{call['execution_id']}/deny"
        page = visitor.send(replace(form, action=deny), reason="  not today ")

        detail = api.get("get_call", chat_id="c1", call_id=call["id"])
        assert detail["error"].endswith(" denied it: not today")
        assert detail["run_started_at"] is None
        page = visitor.open(f"/chats/c1/calls/{call['id']}")
        assert "not today" in page.text
        assert "Ran for" not in page.text
        badges = [one for one in page.text.split() if one in {"denied", "error"}]
        assert "denied" in badges
        assert "error" not in badges

    call = api.call("app-builder:run_command", command="ls")
    page = visitor.open(f"/approvals/{call['execution_id']}")
    visitor.send(page.form("/approve"), reason="reviewed")
    detail = api.get("get_approval", execution_id=call["execution_id"])
    assert (detail["state"], detail["decision_reason"]) == ("approved", "reviewed")


def test_after_an_approval_the_conversation_says_how_the_call_ended_and_shows_it(
    visitor: Visitor, api: Api
) -> None:
    call = api.call("app-builder:run_command", command="true")
    page = visitor.send(visitor.open("/chats/c1").form("/approve"))
    assert "Approved and ran: Run command (success)." in page.text
    (row,) = [one for one in page.named("details") if one.get("id") == f"c-{call['id']}"]
    assert "open" in row


def test_after_a_decision_the_page_of_the_call_links_to_the_next_thing_to_do(
    visitor: Visitor, api: Api
) -> None:
    first, second = (
        f"/approvals/{api.call('app-builder:run_command', command='true')['execution_id']}"
        for _ in range(2)
    )
    page = visitor.send(visitor.open(first).form("/approve"))
    assert second in [link.href for link in page.links]
    assert "Next:" not in visitor.open(page.address).text
    assert "Next:" not in visitor.send(visitor.open(second).form("/approve")).text


def test_the_duration_of_an_approved_call_begins_with_its_approval(
    visitor: Visitor, api: Api
) -> None:
    call = api.call("app-builder:run_command", command="ls")
    api.post("approve_call", execution_id=call["execution_id"])
    decided = api.get("get_approval", execution_id=call["execution_id"])["decided_at"]

    detail = api.get("get_call", chat_id="c1", call_id=call["id"])
    (row,) = api.get("list_manifests", chat_id="c1")["manifests"]
    assert detail["started_at"] < decided
    assert detail["run_started_at"] == row["call"]["run_started_at"] == decided
    text = visitor.open(f"/chats/c1/calls/{call['id']}").text
    assert "after its approval" in text.partition("Ran for")[2]


def test_approvals_are_listed_in_the_same_order_as_by_the_operation(
    visitor: Visitor, api: Api
) -> None:
    calls = [api.call("app-builder:run_command", command=command) for command in ("ls", "pwd")]
    pages = [f"/approvals/{call['execution_id']}" for call in calls]
    links = [link.href for link in visitor.open("/approvals").links if link.href in pages]
    assert [*dict.fromkeys(links)] == pages
