from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext

from tests.api_client import Api, configure
from tests.browser import console_errors
from tests.live_server import live
from tests.server.visitor import Visitor


@pytest.fixture
def visitor(root: Path) -> Visitor:
    return Visitor.of(root)


def make_counter(root: Path) -> None:
    """Add a toolset whose tool takes a number."""
    folder = root / "toolsets" / "counter"
    folder.mkdir()
    (folder / "toolset.yaml").write_text(
        "id: counter\nname: Counter\nversion: '1'\ntools:\n"
        "  - id: count\n    entrypoint: count:count\n    input_schema:\n      type: object\n"
        "      required: [to]\n      properties:\n"
        "        to: {type: integer, minimum: 1}\n        unit: {type: string}\n"
    )
    (folder / "count.py").write_text("def count(to, unit=''):\n    return list(range(to))\n")


def test_the_start_page_of_a_new_project_says_what_to_do(visitor: Visitor) -> None:
    page = visitor.open("/")

    assert "Make the first chat" in page.text
    assert "3 toolsets with 15 tools" in page.text


def test_the_start_page_tells_of_chats_of_waiting_calls_and_of_broken_toolsets(
    visitor: Visitor, root: Path, api: Api
) -> None:
    api.call("app-builder:run_command", command="ls")
    manifest = root / "toolsets/data-lab/toolset.yaml"
    manifest.write_text(manifest.read_text() + "colour: red\n")

    page = visitor.open("/")

    assert "A chat" in page.text
    assert "A call waits for a person: app-builder:run_command" in page.text
    assert "Errors in data-lab" in page.text


def test_tools_are_grouped_by_toolset_and_marked_with_renderer_and_question(
    visitor: Visitor,
) -> None:
    page = visitor.open("/tools")

    assert "App Builder toolset 6 tools" in page.text
    assert "Run Command code asks first" in page.text
    assert "Summarize Table html" in page.text


def test_tools_are_shown_with_their_icons(root: Path, context: BrowserContext) -> None:
    with live(root) as server:
        page = context.new_page()
        page.goto(server.door)
        for path in ("/tools", "/toolsets/data-lab"):
            said = console_errors(page)
            page.goto(f"{server.url}{path}")
            icons = page.locator(".tool img.icon")

            assert icons.count() == 4
            drawn = icons.evaluate_all("all => all.map((one) => [one.naturalWidth, one.width])")
            assert drawn == [[64, 20]] * 4
            assert said == []


def test_a_declared_mcp_server_is_a_group_of_its_own(visitor: Visitor, root: Path) -> None:
    manifest = root / "toolsets/app-builder/toolset.yaml"
    server = "mcp_servers:\n  - {id: files, command: npx, args: [-y, server-filesystem]}\n"
    manifest.write_text(manifest.read_text() + server)

    page = visitor.open("/tools")

    assert "files MCP server 0 tools" in page.text


def test_a_search_finds_tools_by_a_word_and_says_when_there_is_none(visitor: Visitor) -> None:
    found = visitor.open("/tools?q=chart")
    none = visitor.open("/tools?q=zeppelin")

    assert "Summarize Table" in found.text
    assert "Write File" not in found.text
    assert "No tool is like that" in none.text


def test_a_tool_is_called_from_its_form_and_its_result_is_the_next_page(
    visitor: Visitor, api: Api
) -> None:
    form = visitor.open("/tools/app-builder:write_file?chat=c1").form("write_file")

    page = visitor.send(form, "Run", **{"args/path": "a.txt", "args/content": "hello"})

    assert page.status == 200
    assert "app-builder:write_file success" in page.text
    assert api.read("a.txt").get_data() == b"hello"


def test_a_call_into_a_new_chat_makes_the_chat(visitor: Visitor, root: Path) -> None:
    form = visitor.open("/tools/app-builder:write_file").form("write_file")

    page = visitor.send(form, "Run", **{"args/path": "a.txt", "args/content": "hello"})

    assert "success" in page.text
    assert (root / "data/chats/c1/workspace/a.txt").read_text() == "hello"


def test_wrong_arguments_are_told_at_their_fields_and_nothing_typed_is_lost(
    visitor: Visitor, root: Path, api: Api
) -> None:
    make_counter(root)
    form = visitor.open("/tools/counter:count?chat=c1").form("count")

    page = visitor.send(form, "Run", **{"args/to": "ten", "args/unit": "sheep"})

    assert 'must be an integer, not "ten"' in page.text
    assert page.form("count").fields["args/to"] == ["ten"]
    assert page.form("count").fields["args/unit"] == ["sheep"]
    assert api.get("list_calls", chat_id="c1")["calls"] == []


def test_an_example_fills_the_form_with_one_click(visitor: Visitor) -> None:
    form = visitor.open("/tools/data-lab:load_sample").form("load_sample")
    label = next(words.strip() for name, _, words in form.buttons if name == "_example")

    page = visitor.send(form, label)

    assert page.form("load_sample").fields["args/output"] == ["weather.csv"]


def test_arguments_in_the_address_fill_the_form(visitor: Visitor) -> None:
    page = visitor.open('/tools/app-builder:write_file?args={"path":"b.txt","content":"x"}')

    assert page.form("write_file").fields["args/path"] == ["b.txt"]


def test_the_form_is_checked_while_somebody_types(visitor: Visitor, root: Path) -> None:
    make_counter(root)
    form = visitor.open("/tools/counter:count").form("count")
    form.fields["_check"] = ["1"]

    page = visitor.send(form, **{"args/to": "-3"})

    assert page.headers["Content-Type"] == "application/json"
    assert '"path":"args/to"' in page.source


def test_a_tool_that_asks_first_waits_and_the_next_page_is_the_question(
    visitor: Visitor, api: Api
) -> None:
    form = visitor.open("/tools/app-builder:run_command?chat=c1").form("run_command")

    asked = visitor.send(form, "Ask to run", **{"args/command": "echo hi > said.txt"})
    listed = visitor.open("/approvals")
    done = visitor.send(asked.form("/approve"), "Approve and run")

    assert "Nothing has run yet" in asked.text
    assert '{"command":"echo hi > said.txt"}' in listed.text
    assert "asked by local" in listed.text
    assert "app-builder:run_command success" in done.text
    assert api.read("said.txt").get_data() == b"hi\n"


def test_a_denied_call_never_runs(visitor: Visitor, api: Api) -> None:
    waiting = api.call("app-builder:run_command", command="echo hi > said.txt")
    asked = visitor.open(f"/approvals/{waiting['execution_id']}")

    page = visitor.send(asked.form("/deny"), "Deny")

    assert "Denied: it did not run." in page.text
    assert api.files() == {}
    assert "Nothing waits for a person" in visitor.open("/approvals").text
    assert "app-builder:run_command" in visitor.open("/approvals?state=denied").text


def test_an_approval_about_other_files_asks_again_with_the_difference(
    visitor: Visitor, api: Api
) -> None:
    waiting = api.call("app-builder:run_command", command="ls")
    api.write("new.txt", "x")
    asked = visitor.open(f"/approvals/{waiting['execution_id']}")
    assert "Changed since it was asked" in asked.text
    assert "new.txt" in asked.text

    again = visitor.send(asked.form("/approve"), "Approve and run")
    done = visitor.send(again.form("/approve"), "Approve and run")

    assert "Nothing ran: what was asked about has changed" in again.text
    assert waiting["execution_id"] not in again.address
    assert "success" in done.text


def test_whoever_may_not_settle_sees_the_question_without_buttons(root: Path, api: Api) -> None:
    waiting = api.call("app-builder:run_command", command="ls")
    configure(root, "roles: {guest: {allow: ['app-builder.*']}}\n")

    page = Visitor.of(root, "guest").open(f"/approvals/{waiting['execution_id']}")

    assert "Your role may not settle calls of this tool" in page.text
    assert all("approve" not in form.action for form in page.forms)


def test_a_tool_that_a_role_may_not_call_does_not_exist_for_it(root: Path) -> None:
    configure(root, "roles: {guest: {allow: ['data-lab.*']}}\n")
    guest = Visitor.of(root, "guest")

    assert guest.open("/tools/app-builder:run_command").status == 404
    assert "App Builder" not in guest.open("/tools").text
    assert "app-builder" not in guest.open("/toolsets").text


def test_a_toolset_is_switched_off_and_its_tools_say_so(visitor: Visitor, root: Path) -> None:
    form = visitor.open("/toolsets/data-lab").form("/enabled")

    page = visitor.send(form)

    assert "Disabled: none of its tools can be called." in page.text
    assert "enabled: false" in (root / "toolsets/state/data-lab.yaml").read_text()
    tool = visitor.open("/tools/data-lab:summarize")
    assert "Its toolset is disabled" in tool.text
    refused = visitor.send(tool.form("summarize"), **{"args/path": "weather.csv"})
    assert refused.status == 403
    assert "covalt-git toolset enable data-lab" in refused.text


def test_only_who_may_do_everything_is_offered_to_switch_a_toolset(root: Path) -> None:
    configure(root, "roles: {guest: {allow: ['data-lab.**']}, owner: {admin: true}}\n")
    guest, owner = Visitor.of(root, "guest"), Visitor.of(root, "owner")

    for address in ("/toolsets", "/toolsets/data-lab"):
        assert not [one for one in guest.open(address).forms if one.action.endswith("/enabled")]
        form = owner.open(address).form("/data-lab/enabled")
    refused = guest.send(form)
    assert (refused.status, "Your role may not switch toolsets" in refused.text) == (403, True)
    assert not (root / "toolsets/state").exists()


def test_a_problem_leads_to_its_line(visitor: Visitor, root: Path) -> None:
    manifest = root / "toolsets/data-lab/toolset.yaml"
    lines = manifest.read_text().splitlines()
    manifest.write_text("\n".join([*lines, "colour: red"]) + "\n")

    page = visitor.open("/toolsets/data-lab")
    place = f"toolsets/data-lab/toolset.yaml:{len(lines) + 1}:1"
    source = visitor.open(page.link(place))

    assert "unknown key 'colour'" in page.text
    assert page.link(place).endswith(f"toolset.yaml#L{len(lines) + 1}")
    assert any(given.get("id") == f"L{len(lines) + 1}" for _, given in source.elements)


def test_only_files_of_the_toolset_are_shown(visitor: Visitor, root: Path) -> None:
    (root / "secret.txt").write_text("secret")
    (root / "toolsets/data-lab/link.txt").symlink_to(root / "secret.txt")

    for path in ("../../secret.txt", "..%2f..%2fsecret.txt", "link.txt", "nope.txt"):
        page = visitor.open(f"/toolsets/data-lab/files/{path}")
        assert page.status in {404, 308, 301}
        assert "secret" not in page.text.replace("secret.txt", "")


def test_an_unknown_page_says_so_in_words(visitor: Visitor) -> None:
    page = visitor.open("/nowhere")

    assert page.status == 404
    assert "There is nothing here" in page.text


def test_a_page_has_no_inline_script_style_or_handler_and_nothing_from_elsewhere(
    visitor: Visitor, api: Api
) -> None:
    call = api.write("a.txt", "hello")["id"]
    for address in (
        "/",
        "/tools",
        "/tools/data-lab:select_rows",
        "/toolsets/app-builder",
        "/approvals",
        f"/chats/c1/calls/{call}",
        "/chats",
        "/chats/c1",
    ):
        page = visitor.open(address)
        assert page.status == 200
        assert all(given.get("src") for given in page.named("script")), address
        assert page.named("style") == []
        for tag, given in page.elements:
            assert "style" not in given, (address, tag)
            assert not any(name.startswith("on") for name in given), (address, tag)
            for name in ("src", "href", "action"):
                value = given.get(name, "")
                assert value.startswith("data:image/") or "//" not in value, (address, tag, value)
