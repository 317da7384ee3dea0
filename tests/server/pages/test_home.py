"""Start page: what needs the user with a button each, the last active chats, and the first steps."""

import re

from tests.api_client import Api, configure
from tests.server.visitor import Visitor

BROKEN = 'id: gear\nname: Gear\nversion: "1"\ncolour: red\n'


def test_each_need_has_a_button_that_leads_to_where_it_is_decided(
    visitor: Visitor, api: Api
) -> None:
    (api.root / "toolsets/gear").mkdir()
    (api.root / "toolsets/gear/toolset.yaml").write_text(BROKEN)
    asked = api.call("app-builder:run_command", command="ls")
    api.post("create_chat", chat_id="c2")
    failed = api.post(
        "call_tool", chat_id="c2", tool_id="app-builder:read_file", args={"path": "nope"}
    )
    page = visitor.open("/")
    assert "3 things need you" in page.text
    buttons = [
        f"/approvals/{asked['execution_id']}",
        "/toolsets/gear/files/toolset.yaml#L4",
        f"/chats/c2/calls/{failed['id']}",
    ]
    places = [page.source.index(f'class="button" href="{button}"') for button in buttons]
    assert places == sorted(places)
    for button in buttons:
        visitor.open(button)
    # The keys j, k and o use these links, not those to the chats.
    main = [one["href"] for one in page.named("a") if "data-main" in one]
    assert main == buttons

    # The number in the navigation bar is that of the decisions that the role can make.
    assert re.search(r'class="count">1<', page.source)
    assert len(api.get("list_approvals")["approvals"]) == 1


def test_a_namespace_of_two_toolsets_is_shown_with_its_line_on_home_and_on_pages_of_the_toolset(
    visitor: Visitor, api: Api
) -> None:
    for name in ("gear", "tool"):
        (api.root / "toolsets" / name).mkdir()
        (api.root / "toolsets" / name / "toolset.yaml").write_text(
            f'id: {name}\nname: Gear\nversion: "1"\nmcp_servers:\n  - {{id: disk, command: npx}}\n'
        )
    line = "/toolsets/tool/files/toolset.yaml#L5"
    home = visitor.open("/")
    assert f'class="button" href="{line}"' in home.source
    assert "already has the namespace 'disk'" in home.text
    assert "1 error" in visitor.open("/toolsets").text
    page = visitor.open("/toolsets/tool")
    assert line in [link.href for link in page.links]
    assert "CG401" in page.text
    assert "CG401" in visitor.open(line).text
    other = visitor.open("/toolsets/gear")
    assert "The toolset tool declares the namespace disk too." in other.text
    tool = visitor.open("/tools/disk:read")
    assert (tool.status, "declare the namespace 'disk'" in tool.text) == (404, True)
    assert {tool.link("The toolset gear"), tool.link("The toolset tool")} == {
        "/toolsets/gear",
        "/toolsets/tool",
    }
    editor = "/toolsets/tool/edit/toolset.yaml?line=5&col=10"
    assert editor == other.link("Edit toolsets/tool/toolset.yaml:5")
    assert editor in [link.href for link in page.links]
    assert visitor.open(editor).status == 200
    configuration = (api.root / "covalt.yaml").read_text()
    configure(api.root, "roles: {dev: {allow: ['**']}}")
    dev = Visitor.of(api.root, "dev").open("/tools/disk:read")
    assert (dev.status, "declare the namespace" in dev.text) == (404, False)
    (api.root / "covalt.yaml").write_text(configuration)

    (api.root / "toolsets/tool/toolset.yaml").write_text(
        'id: tool\nname: Gear\nversion: "1"\nmcp_servers:\n  - {id: other, command: npx}\n'
    )
    assert "CG401" not in visitor.open("/toolsets/tool").text
    assert "too." not in visitor.open("/toolsets/gear").text


def test_the_number_of_approvals_is_that_of_the_role_that_decides(
    visitor: Visitor, api: Api
) -> None:
    api.call("app-builder:run_command", command="ls")
    configure(api.root, 'default_role: caller\nroles:\n  caller: {allow: ["app-builder.*"]}\n')
    page = visitor.open("/")
    assert 'class="count"' not in page.source
    assert "Nothing needs you" in page.text


def test_chats_are_in_the_order_of_their_last_activity_with_their_last_line(
    visitor: Visitor, api: Api
) -> None:
    api.post("create_chat", chat_id="c2", title="Newer")
    api.post("add_message", chat_id="c2", text="hello")
    api.write("a.txt", "one\n")
    page = visitor.open("/")
    assert [*dict.fromkeys(re.findall(r'<li id="chat-(c\d)"', page.source))] == ["c1", "c2"]
    assert "Write file a.txt" in " ".join(page.text.split())
    assert "hello" in page.text


def test_an_empty_project_shows_three_steps_each_a_button_and_a_command(
    visitor: Visitor, api: Api
) -> None:
    api.post("delete_chat", chat_id="c1")
    page = visitor.open("/")
    assert "Three steps" in page.text
    assert "Nothing needs you" not in page.text
    for command in ("covalt-git toolset new", "covalt-git chat new", "covalt-git call c1"):
        assert command in page.text
    assert page.link("Import a toolset") == "/imports"
    assert page.link("Choose a tool") == "/tools"
    assert visitor.send(page.form("/chats")).address == "/chats/c1"


def test_a_lock_that_is_left_over_is_shown_on_home_and_on_the_page_of_its_toolset(
    visitor: Visitor, api: Api
) -> None:
    (api.root / "toolsets/locks").mkdir(exist_ok=True)
    (api.root / "toolsets/locks/notes.yaml").write_text(
        "version: 1\nkind: mcp\nnamespace: notes\ntoolset_id: data-lab\n"
    )
    home = visitor.open("/")
    page = visitor.open(home.link("1 warning"))

    assert "remove it: covalt-git source remove --lock notes" in page.text
    assert "things need you" not in home.text
