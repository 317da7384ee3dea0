"""Pages of tools, toolsets and approvals."""

import json
import re
import shlex
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from covalt_git.cli import main
from covalt_git.models.sources.tool_lock import PROGRAM
from tests.api_client import BEARER, HOME, TOKEN, Api, configure
from tests.mcp_client import add_toolset
from tests.operations_client import Operations
from tests.server.visitor import Visitor


def test_the_start_page_leads_to_what_needs_attention(
    visitor: Visitor, root: Path, api: Api
) -> None:
    waiting = api.call("app-builder:run_command", command="ls")
    (root / "toolsets/data-lab/toolset.yaml").write_text("id: [")
    links = [one.href for one in visitor.open("/").links]

    assert {"/chats/c1#end", f"/approvals/{waiting['execution_id']}", "/toolsets/data-lab"} <= {
        *links
    }


def test_a_call_without_a_chat_makes_one(visitor: Visitor, root: Path) -> None:
    form = visitor.open("/tools/app-builder:write_file").form("write_file")

    page = visitor.send(form, "Run", **{"args/path": "a.txt", "args/content": "hello"})

    assert "success" in page.text
    assert (root / "data/chats/c1/workspace/a.txt").read_text() == "hello"


def test_the_url_fills_the_form(visitor: Visitor) -> None:
    page = visitor.open('/tools/app-builder:write_file?args={"path":"b.txt","content":"x"}')

    assert page.form("write_file").fields["args/path"] == ["b.txt"]


def test_the_last_calls_of_a_tool_fill_its_form_and_are_compared(
    visitor: Visitor, api: Api
) -> None:
    address = "/tools/app-builder:read_file?chat=c1"
    api.upload(("a.txt", b"apple"), ("b.txt", b"pear"))
    api.call("app-builder:list_files")
    for path in ("a.txt", "b.txt"):
        page = visitor.send(visitor.open(address).form("read_file"), "Run", **{"args/path": path})
    assert page.address == "/tools/app-builder:read_file"
    assert "Result success" in page.text
    assert "pear" in page.text

    picks = [call["id"] for call in api.get("list_calls", chat_id="c1")["calls"][:2]]
    # Enter in a checkbox of the form would press its first button, and run the tool again.
    assert not [box for box in page.named("input") if box.get("type") == "checkbox"]
    offered = [option["value"] for option in page.named("option") if option["value"] in picks]
    assert offered == [*picks, *picks]
    assert "path: a.txt" in page.text
    # times.js writes these times too, in the reader's time zone.
    timed = {option["value"] for option in page.named("option") if option.get("data-time")}
    assert timed == {*picks}
    assert "path: b.txt" in page.text
    first = [one.href for one in page.links if one.text == "Fill in"][1]
    assert visitor.open(first).form("read_file").fields["args/path"] == ["a.txt"]
    compared = visitor.open(f"{address}&compare={picks[0]}&compare={picks[1]}")
    # Below the columns, because half of the page is too narrow for it.
    assert compared.source.index("</aside>") < compared.source.index('id="compared"')
    assert any("a.txt" in line for line in compared.changed_lines("del"))
    assert any("b.txt" in line for line in compared.changed_lines("add"))
    typed = {"args/path": "typed.txt", "chat": "c1", "run": picks[0], "_compare": "1"}
    for some in (picks[:1], [picks[0], picks[0]]):
        asked = visitor.send(page.form("read_file"), **typed, compare=some)
        assert "Choose two different calls to compare." in asked.text
        assert "Result success" in asked.text
        assert asked.form("read_file").fields["args/path"] == ["typed.txt"]
    both = visitor.send(page.form("read_file"), **typed, compare=picks)
    assert any("a.txt" in line for line in both.changed_lines("del"))
    assert both.form("read_file").fields["args/path"] == ["typed.txt"]
    assert "Equal in both calls: printed output, changed files." in both.text
    # A page with an URL, so that Back and bookmarks lead to it; what was typed is in it.
    (redirect,) = both.redirects
    assert redirect.startswith("/tools/app-builder:read_file?")
    assert visitor.open(redirect).changed_lines("del") == both.changed_lines("del")
    assert "args=" in redirect
    for untyped in ({"args/path": "b.txt"}, {"args/path": "", "run": ""}):
        again = visitor.send(page.form("read_file"), **typed | untyped, compare=picks)
        assert "args=" not in again.redirects[0]
    assert len(api.get("list_calls", chat_id="c1")["calls"]) == 3
    other = visitor.open(f"/tools/app-builder:write_file?chat=c1&run={picks[0]}")
    assert "Result" not in [
        one.strip() for one in re.findall(r"<h2 id=.result.>(\w+)", other.source)
    ]


def test_the_chosen_chat_shows_its_last_calls_and_is_in_the_address(
    visitor: Visitor, api: Api
) -> None:
    address = "/tools/app-builder:read_file"
    api.upload(("a.txt", b"apple"))
    calls = [api.call("app-builder:read_file", path="a.txt")["id"] for _ in range(2)]
    for title in ("app", "trip"):
        visitor.send(visitor.open("/chats").form("/chats"), title=title)

    # The chat of the last call of this tool, not the chat of the last activity.
    page = visitor.open(address)
    assert page.form("read_file").fields["chat"] == ["c1"]
    assert "Last calls in this chat" in page.text
    assert visitor.open("/tools/app-builder:write_file").form("_file").fields["chat"] == ["c3"]

    assert "_chat" in [button.get("name") for button in page.named("button")]
    chosen = {"_chat": "1", "chat": "c2", "args/path": "typed.txt"}
    other = visitor.send(page.form("read_file"), **chosen)
    assert "chat=c2" in other.redirects[0]
    assert "Last calls in this chat" not in other.text
    assert other.form("read_file").fields["args/path"] == ["typed.txt"]
    untyped = chosen | {"chat": "c1", "args/path": ""}
    again = visitor.send(other.form("read_file"), **untyped)
    assert again.redirects == [f"{address}?chat=c1"]
    assert "Last calls in this chat" in again.text
    new = visitor.send(again.form("read_file"), **untyped | {"chat": ""})
    assert visitor.open(new.redirects[0]).form("read_file").fields["chat"] == [""]

    # The page of a call compares it with the call before, if there is one.
    label = "Compare with the call of this tool before it"
    compared = visitor.open(visitor.open(f"/chats/c1/calls/{calls[1]}").link(label))
    assert "No difference between two calls" in compared.text
    assert label not in visitor.open(f"/chats/c1/calls/{calls[0]}").text


def test_a_comparison_says_that_two_calls_are_equal(visitor: Visitor, api: Api) -> None:
    api.upload(("a.txt", b"apple"))
    old, new = (api.call("app-builder:read_file", path="a.txt")["id"] for _ in range(2))
    page = visitor.open(f"/tools/app-builder:read_file?chat=c1&compare={new}&compare={old}")

    assert "No difference between two calls" in page.text
    assert "Equal in both calls: arguments, result, printed output, changed files." in page.text
    assert page.link("older call") == f"/chats/c1/calls/{old}"
    alone = visitor.open(f"/tools/app-builder:read_file?chat=c1&compare={old}")
    assert "Choose two different calls to compare." in alone.text


def test_a_field_for_a_path_offers_the_files_of_the_chat(
    visitor: Visitor, root: Path, api: Api
) -> None:
    api.upload(("days.csv", b"x"), ("a&b.txt", b"y"))
    address = "/tools/app-builder:read_file?chat=c1"

    def offers(visitor: Visitor) -> set[str]:
        return {
            one["value"]
            for one in visitor.open(address).named("option")
            if one["value"] not in {"", "c1"}
        }

    assert {"days.csv", "a&b.txt"} <= offers(visitor)
    configure(
        root,
        "default_role: agent\nroles: {agent: {allow: ['**']}}\n"
        "rules: [{pattern: workspace.list_files, roles: [agent], effect: deny}]\n",
    )
    assert "days.csv" not in offers(Visitor.of(root, "agent"))


def test_the_copied_texts_follow_the_form_and_have_no_token(api: Api) -> None:
    form = {"_side": "form", "args/path": "it's.txt", "chat": "c1", "_check": "1"}
    address = "/tools/app-builder:read_file"
    answer = api.client().post(address, base_url=HOME, headers=BEARER, data=form)
    texts = answer.get_json()["texts"]

    command = ["covalt-git", "call", "c1", "app-builder:read_file", '{"path":"it\'s.txt"}']
    assert shlex.split(texts["cli"]) == command
    assert "Bearer $TOKEN" in texts["curl"]
    assert TOKEN not in answer.text


def test_the_chosen_example_is_marked_and_runs(visitor: Visitor, root: Path) -> None:
    form = visitor.open("/tools/app-builder:write_file").form("write_file")
    label = next(words for name, _, words in form.buttons if name == "_example")
    chosen = visitor.send(form, label)

    pressed = [one["id"] for one in chosen.named("button") if one.get("aria-pressed") == "true"]
    assert pressed == ["side-form", "example-0"]
    visitor.send(chosen.form("write_file"), "Run the example")
    assert (root / "data/chats/c1/workspace/index.html").read_text() == "hi"


def test_an_example_that_needs_a_file_offers_to_put_it_into_the_chat(
    visitor: Visitor, root: Path
) -> None:
    for title in ("older", "newer"):
        visitor.send(visitor.open("/chats").form("/chats"), title=title)
    form = visitor.open("/tools/data-lab:select_rows").form("select_rows")
    assert form.fields["chat"] == ["c2"]  # the chat that was active last
    label = next(words for name, _, words in form.buttons if name == "_example")
    chosen = visitor.send(form, label)
    assert "needs sales.csv , which the chat does not have" in chosen.text

    # A button "Run the example" would only show that the file is missing.
    assert "Run the example" not in chosen.text
    ran = visitor.send(chosen.form("select_rows"), "Put it into the chat and run", chat="c1")
    assert "Result success" in ran.text
    added = visitor.send(chosen.form("select_rows"), "Put it into the chat")
    assert "Put sales.csv of the example into the chat" in added.text
    assert "which the chat does not have" not in added.text
    assert added.form("select_rows").fields["args/query/path"] == ["sales.csv"]
    assert (root / "data/chats/c2/workspace/sales.csv").read_text().startswith("day,sold\n")


def test_the_address_of_a_form_with_problems_keeps_its_chat(visitor: Visitor) -> None:
    for title in ("older", "newer"):
        visitor.send(visitor.open("/chats").form("/chats"), title=title)
    form = visitor.open("/tools/app-builder:read_file?chat=c1").form("read_file")
    page = visitor.send(form, "Run")

    assert "Result success" not in page.text
    # The browser has the address of the form that was sent.
    assert visitor.open(form.action).form("read_file").fields["chat"] == ["c1"]


SHOP = """\
id: shop
name: Shop
version: "1"
tools: [{id: order, entrypoint: "tools.shop:order"}]
"""
SHOP_PYTHON = """\
from pydantic import BaseModel, field_validator


class Item(BaseModel):
    name: str
    amount: int

    @field_validator("amount")
    def is_even(cls, amount):
        if amount % 2:
            raise ValueError("they come in pairs")
        return amount


def order(note: str, item: Item):
    return note
"""


def test_what_a_pydantic_model_refuses_stays_in_the_form(
    visitor: Visitor, root: Path, api: Api
) -> None:
    add_toolset(root, "shop", SHOP, SHOP_PYTHON)
    form = visitor.open("/tools/shop:order?chat=c1").form("order")
    typed = {"args/note": "soon", "args/item/name": "socks", "args/item/amount": "3"}

    page = visitor.send(form, "Run", **typed)

    wrong = [one["name"] for one in page.named("input") if one.get("aria-invalid")]
    assert wrong == ["args/item/amount"]
    assert "they come in pairs" in page.text
    fields = page.form("order").fields
    shown = {name: fields.get(name) for name in typed}
    assert shown == {name: [text] for name, text in typed.items()}
    assert api.get("list_calls", chat_id="c1")["calls"] == []
    as_json = visitor.send(page.form("order"), "JSON").form("order")
    args = '{"note": "soon", "item": {"name": "socks", "amount": 3}}'
    again = visitor.send(as_json, "Run", _json=args)
    assert [one["name"] for one in again.named("textarea") if one.get("aria-invalid")] == ["_json"]
    assert again.form("order").fields["_json"] == [args]


def test_an_approval_shows_what_changed_and_is_asked_again(visitor: Visitor, api: Api) -> None:
    waiting = api.call("app-builder:run_command", command="ls")
    api.write("new.txt", "x")
    asked = visitor.open(f"/approvals/{waiting['execution_id']}")
    assert "exactly this call runs" not in asked.text
    for address in (f"/approvals/{waiting['execution_id']}", "/approvals", "/"):
        assert "It cannot be approved any more, because its files have changed" in (
            visitor.open(address).text
        ), address
    assert "Decide" not in visitor.open("/approvals").text
    again = visitor.send(asked.form("/approve"))
    done = visitor.send(again.form("/approve"))

    assert "new.txt" in asked.text
    assert again.address.startswith("/approvals/")
    assert waiting["execution_id"] not in again.address
    assert done.address.startswith("/chats/c1/calls/")


def test_a_role_without_the_right_sees_no_buttons_and_no_hidden_tools(root: Path, api: Api) -> None:
    waiting = api.call("app-builder:run_command", command="ls")
    configure(root, "roles: {caller: {allow: ['app-builder.*']}, guest: {allow: ['data-lab.*']}}\n")
    page = Visitor.of(root, "caller").open(f"/approvals/{waiting['execution_id']}")
    guest = Visitor.of(root, "guest")

    assert page.status == 200
    assert all("approve" not in form.action for form in page.forms)
    assert guest.open("/tools/app-builder:run_command").status == 404
    for address in ("/", "/tools", "/toolsets", "/approvals"):
        assert "app-builder" not in guest.open(address).source


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


def test_tools_of_a_server_are_accepted_as_they_are_shown(visitor: Visitor, root: Path) -> None:
    server = Path(__file__).parents[3] / "fixtures/servers/changing.py"
    offered = [{"name": "wipe", "inputSchema": {"type": "object"}}]
    (root / "tools.json").write_text(json.dumps(offered))
    (root / "toolsets/gear").mkdir()
    (root / "toolsets/gear/toolset.yaml").write_text(
        "id: gear\nname: Gear\nversion: '1'\nmcp_servers:\n  - {id: disk, command: "
        f"{sys.executable}, args: {json.dumps([str(server), str(root / 'tools.json')])}}}\n"
    )
    assert visitor.send(visitor.open("/toolsets/gear").form("/refresh")).status == 403
    visitor.send(visitor.open("/toolsets/gear").form("/grants/requested"))
    # The server is not in the toolset, so the sandbox does not show it without a grant.
    folders = (str(server.parent), str(root))
    Operations(root)("add_grant", toolset_id="gear", kind="server", name="disk", folders=folders)
    shown = visitor.send(visitor.open("/toolsets/gear").form("/refresh"))
    assert "/tools/disk:wipe" not in [one.href for one in shown.links]
    visitor.send(shown.form("/accept"))
    assert "/accept" not in str([form.action for form in visitor.open("/toolsets/gear").forms])

    (root / "tools.json").write_text(json.dumps([offered[0] | {"description": "<b>All\u200b</b>"}]))
    changed = visitor.send(visitor.open("/toolsets/gear").form("/refresh"))
    assert re.search(r'class="line add">\+ &lt;b&gt;All\\u\{200b\}&lt;/b&gt;', changed.source)
    late = changed.form("/accept")
    late.fields["tool"] = shown.form("/accept").fields["tool"]
    assert visitor.send(late).status == 409


def test_the_program_of_a_server_has_the_name_of_its_server(
    visitor: Visitor, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = root.parent / "disk-server"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (root / "toolsets/gear").mkdir()
    (root / "toolsets/gear/toolset.yaml").write_text(
        f"id: gear\nname: Gear\nversion: '1'\nmcp_servers: [{{id: disk, command: {program}}}]\n"
    )
    Operations(root)("add_grant", toolset_id="gear", kind="server", name="disk")

    shown = visitor.send(visitor.open("/toolsets/gear").form("/refresh"))

    assert "the program of disk" in shown.text
    assert "Accept the program of disk" in shown.text
    assert PROGRAM not in shown.text
    visitor.send(shown.form("/accept"))
    with suppress(SystemExit):
        main(["-C", str(root), "bundle", "verify", "gear"])
    assert "accepted the program of disk: valid" in capsys.readouterr().out


def test_the_folder_of_a_server_that_did_not_start_is_granted_on_the_page(
    visitor: Visitor, root: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "server.py").write_text("")
    (root / "toolsets/gear").mkdir()
    (root / "toolsets/gear/toolset.yaml").write_text(
        "id: gear\nname: Gear\nversion: '1'\n"
        f"mcp_servers:\n  - {{id: disk, command: python3, args: [{folder}/server.py]}}\n"
    )
    Operations(root)("add_grant", toolset_id="gear", kind="server", name="disk")

    failed = visitor.send(visitor.open("/toolsets/gear").form("/refresh#source-disk"))
    assert f"The sandbox does not show {folder}/server.py" in failed.text
    assert "\\u{a}" not in failed.source
    # Later too, also after a restart: the server was asked.
    assert "server.py" in (root / "data/listings/disk.json").read_text()
    assert "disk did not list its tools" in visitor.open("/").text
    page = visitor.open("/toolsets/gear")
    assert "never asked" not in page.text
    form = next(one for one in page.forms if "folder" in one.fields and "digest" in one.fields)
    granted = visitor.send(form)
    assert "Granted. List its tools again." in granted.text
    (grant,) = Operations(root)("list_grants", toolset_id="gear")["grants"]
    assert f"'folders': ['{folder}']" in str(grant["grant"])

    # A typed folder is shown with what it grants first.
    typed = visitor.open("/toolsets/gear").form("/grants/plan")
    planned = visitor.send(typed, folder=str(tmp_path))
    review = next(one for one in planned.forms if one.fields.get("folder") == [str(tmp_path)])
    assert review.action.endswith("/grants")
    assert "python3" in planned.text.partition("This would be granted and trusted")[2]
    assert visitor.send(typed, folder="/nowhere").status == 409


@pytest.mark.rest
def test_an_observation_shows_what_a_server_lacks_and_grants_nothing(
    visitor: Visitor, root: Path
) -> None:
    server = Path(__file__).parents[3] / "fixtures/servers/needing.py"
    (root / "toolsets/gear").mkdir()
    (root / "toolsets/gear/needing.py").write_text(server.read_text())
    (root / "toolsets/gear/toolset.yaml").write_text(
        "id: gear\nname: Gear\nversion: '1'\n"
        "mcp_servers:\n  - {id: disk, command: python3, args: [needing.py]}\n"
    )
    assert visitor.send(visitor.open("/toolsets/gear").form("/observe")).status == 403
    Operations(root)("add_grant", toolset_id="gear", kind="server", name="disk")
    before = Operations(root)("list_grants")

    form = visitor.open("/toolsets/gear").form("/observe")
    form.fields |= {"tool": ["read"], "args": ['{"path": "/etc/shadow"}']}
    shown = visitor.send(form)

    assert "a server should not need this: passwords of the machine" in shown.text
    assert "FileNotFoundError" in shown.text
    assert Operations(root)("list_grants") == before
    form.fields["args"] = ["{"]
    assert "are not JSON" in visitor.send(form).text


def test_a_server_whose_script_is_in_the_project_leads_to_its_command_and_offers_no_folder(
    visitor: Visitor, root: Path
) -> None:
    (root / "srv").mkdir()
    script = root / "srv/server.py"
    script.write_text("")
    folder = root / "toolsets/local"
    folder.mkdir()
    (folder / "toolset.yaml").write_text(
        "id: local\nname: Local\nversion: '1'\nmcp_servers:\n"
        f"  - {{id: mine, command: python3, args: [{script}]}}\n"
    )
    (root / "toolsets/state").mkdir(exist_ok=True)
    (root / "toolsets/state/local.yaml").write_text("enabled: true\nsource_type: local\n")
    visitor.send(visitor.open("/toolsets/local").form("/grants/requested"))

    page = visitor.send(visitor.open("/toolsets/local").form("/refresh"))

    assert "is in the project" in page.text
    assert "Grant this folder" not in page.source
    assert f"git mv {script} toolsets/local/" in page.text
    assert page.link("Edit its command").endswith("/edit/toolset.yaml?line=5&col=10")
