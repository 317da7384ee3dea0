from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from covalt_git.project import Project
from covalt_git.workspaces.writing import writing
from tests.api_client import Api, configure
from tests.server.visitor import Page, Visitor
from tests.workspaces.stores import open_chats

WRITE = "app-builder:write_file"


@pytest.fixture
def visitor(root: Path) -> Visitor:
    return Visitor.of(root)


def head(api: Api, manifest: str = "HEAD") -> str:
    found: str = api.get("get_workspace_manifest", chat_id="c1", manifest=manifest)["id"]
    return found


def branch_with_work(api: Api) -> None:
    """Make a state on main, and one on a branch ``idea`` from there."""
    api.write("index.html", "<h1>Rain</h1>\n")
    api.post("create_branch", chat_id="c1", name="idea")
    api.post("switch_branch", chat_id="c1", branch="idea")
    api.write("index.html", "<h1>Sun</h1>\n")
    api.post("switch_branch", chat_id="c1", branch="main")


def rows(page: Page) -> list[str]:
    """Return the addresses of the states that a history shows."""
    links = [one.href for one in page.links if "/states/" in one.href]
    return [re.sub(r".*/states/", "", href) for href in links]


def test_without_a_chat_the_page_says_what_one_is_and_makes_it(visitor: Visitor) -> None:
    empty = visitor.open("/chats")
    assert "No chats yet" in empty.text

    page = visitor.send(empty.form("/chats"), title="Rain in Seattle")

    assert page.address == "/chats/c1"
    assert page.title.startswith("Rain in Seattle")
    assert "Made." in page.text
    assert "Nothing has happened yet" in page.text


def test_a_chat_without_a_title_is_called_by_its_id(visitor: Visitor) -> None:
    visitor.send(visitor.open("/chats").form("/chats"))
    page = visitor.send(visitor.open("/chats").form("/chats"))

    assert page.address == "/chats/c2"
    assert page.title.startswith("c2")


def test_chats_are_listed_with_where_they_are_and_how_much_happened(
    visitor: Visitor, api: Api
) -> None:
    branch_with_work(api)

    page = visitor.open("/chats")

    assert page.link("A chat") == "/chats/c1"
    assert "c1 on main , 2 states, 2 calls" in page.text


def test_a_chat_that_an_agent_made_says_so(visitor: Visitor, api: Api, root: Path) -> None:
    with replace(open_chats(root / "data"), maker="agent:cursor").new() as chat:
        pass

    assert [one["made_by"] for one in api.get("list_chats")["chats"]] == ["agent:cursor", None]
    assert visitor.open("/chats").text.count("by agent:cursor") == 1
    assert "agent:cursor made it and works in it" in visitor.open(f"/chats/{chat.id}").text
    assert "made it" not in visitor.open("/chats/c1").text


@pytest.mark.usefixtures("api")
def test_a_chat_that_does_not_exist_is_told_with_the_nearest(visitor: Visitor) -> None:
    page = visitor.open("/chats/c11")

    assert page.status == 404
    assert "did you mean 'c1'?" in page.text


def test_an_id_that_is_too_long_is_a_wrong_request_not_a_bug(visitor: Visitor) -> None:
    assert visitor.open("/chats/" + "c" * 300).status == 400


def test_the_history_tells_what_made_each_state(visitor: Visitor, api: Api) -> None:
    api.upload(("rain.csv", b"a\n1\n"))
    call = api.write("index.html", "<h1>Rain</h1>\n")
    failed = api.call("app-builder:read_file", path="missing.txt")
    (api.workspace / "notes.md").write_text("by hand")
    api.post("save_edits", chat_id="c1")

    page = visitor.open("/chats/c1")

    assert len(rows(page)) == 4
    assert "Uploaded rain.csv" in page.text
    assert page.link(WRITE) == f"/chats/c1/calls/{call['id']}"
    assert page.link("app-builder:read_file") == f"/chats/c1/calls/{failed['id']}"
    assert "error tool_raised: ValueError: there is no file 'missing.txt'" in page.text
    assert "Edit: notes.md main" in page.text
    assert page.text.count("1 file changed") == 3


def test_every_state_has_its_part_of_the_picture(visitor: Visitor, api: Api) -> None:
    branch_with_work(api)
    api.write("other.html", "")

    page = visitor.open("/chats/c1")

    assert len(page.named("svg")) == len(page.named("circle")) == len(rows(page)) == 3
    assert page.source.count('class="graph lanes-2"') == 3


def test_branches_stand_at_their_heads_and_the_folder_s_is_marked(
    visitor: Visitor, api: Api
) -> None:
    branch_with_work(api)

    page = visitor.open("/chats/c1")

    marked = re.findall(r'class="badge branch( active)?"[^>]*>(\w+)<', page.source)
    assert marked == [("", "idea"), (" active", "main")]


def test_the_history_of_one_branch_leaves_the_others_out(visitor: Visitor, api: Api) -> None:
    branch_with_work(api)
    everything = visitor.open("/chats/c1")

    form = next(one for one in everything.forms if one.method == "get" and "branch" in one.fields)
    page = visitor.send(form, branch="main")

    assert len(rows(everything)) == 2
    assert rows(page) == [head(api, "main")]


def test_a_hundred_states_are_shown_at_once_and_older_ones_on_the_next_page(
    visitor: Visitor, api: Api
) -> None:
    with Project.open(api.root).chats.open("c1") as chat, writing(chat) as writer:
        for number in range(103):
            (chat.workspace / "count.txt").write_text(str(number))
            writer.save_edits()

    newest = visitor.open("/chats/c1")
    older = visitor.open(newest.link("Older"))

    assert len(rows(newest)) == 100
    assert len(rows(older)) == 3
    assert not set(rows(newest)) & set(rows(older))
    assert older.link("The newest") == "/chats/c1"
    assert "Older" not in older.text
    assert len(older.named("line")) == 5  # each dot's lines, but for the first state's


def test_unsaved_edits_are_named_and_become_a_state_at_a_button(visitor: Visitor, api: Api) -> None:
    api.write("index.html", "<h1>Rain</h1>\n")
    (api.workspace / "index.html").write_text("<h1>Sun</h1>\n")
    (api.workspace / "huge.bin").write_bytes(b"x" * (1 << 20) + b"x")
    before = visitor.open("/chats/c1")

    page = visitor.send(before.form("/chats/c1/edits"), "Save as a state")

    assert "Unsaved edits ± index.html" in before.text
    assert "huge.bin is not stored: it is larger than 1 MiB" in before.text
    assert "Saved." in page.text
    assert "Edit: index.html" in page.text
    assert "No unsaved edits." in page.text


def test_ignored_files_are_named(visitor: Visitor, api: Api) -> None:
    (api.root / "covalt.yaml").write_text("version: 1\nworkspace: {ignore: ['*.log']}\n")
    (api.workspace / "debug.log").write_text("x")

    assert "1 ignored" in visitor.open("/chats/c1").text


def test_a_call_that_waits_leads_to_its_approval(visitor: Visitor, api: Api) -> None:
    call = api.call("app-builder:run_command", command="ls")

    page = visitor.open("/chats/c1")

    assert "app-builder:run_command waits for a person on main" in page.text
    assert page.link("app-builder:run_command") == f"/approvals/{call['execution_id']}"


def test_the_folder_goes_to_another_branch_and_back(visitor: Visitor, api: Api) -> None:
    branch_with_work(api)

    there = visitor.send(visitor.open("/chats/c1").form("/switch"), "Switch")

    assert "The folder is on that branch now." in there.text
    assert "On idea" in there.text
    assert (api.workspace / "index.html").read_text() == "<h1>Sun</h1>\n"


def test_a_branch_begins_at_any_state_and_the_folder_goes_there(visitor: Visitor, api: Api) -> None:
    api.write("index.html", "<h1>Rain</h1>\n")
    first = head(api)
    api.write("index.html", "<h1>Sun</h1>\n")
    page = visitor.open("/chats/c1")
    form = next(one for one in page.forms if one.fields.get("from_manifest") == [first])
    assert form.fields["name"] == ["retry-1"]

    after = visitor.send(form, "Branch")

    assert "The branch is there, and the folder is on it." in after.text
    assert "On retry-1" in after.text
    assert head(api) == first
    assert (api.workspace / "index.html").read_text() == "<h1>Rain</h1>\n"


def test_a_branch_alone_leaves_the_folder_where_it_is(visitor: Visitor, api: Api) -> None:
    api.write("index.html", "<h1>Rain</h1>\n")
    form = visitor.open(f"/chats/c1/states/{head(api)}").form("/branches")
    del form.fields["switch"]

    page = visitor.send(form, "Branch", name="later")

    assert "The branch is there." in page.text
    assert "On main" in page.text
    assert head(api, "later") == head(api, "main")


def test_the_name_that_is_suggested_for_a_branch_is_free(visitor: Visitor, api: Api) -> None:
    api.write("index.html", "")
    api.post("create_branch", chat_id="c1", name="retry-1")

    form = visitor.open("/chats/c1/states/HEAD").form("/branches")

    assert form.fields["name"] == ["retry-2"]


def test_a_branch_name_that_is_taken_is_told(visitor: Visitor, api: Api) -> None:
    api.write("index.html", "")
    form = visitor.open("/chats/c1/states/HEAD").form("/branches")

    page = visitor.send(form, "Branch", name="main")

    assert page.status == 409
    assert "There is a branch 'main'" in page.text


def test_a_state_tells_who_made_it_how_and_what_that_changed(visitor: Visitor, api: Api) -> None:
    api.write("index.html", "<h1>Rain</h1>\n")
    call = api.write("index.html", "<h1>Sun</h1>\n")

    page = visitor.open("/chats/c1/states/HEAD")

    assert "By local As tool run" in page.text
    assert page.link("its result") == f"/chats/c1/calls/{call['id']}"
    assert "1 file changed" in page.text
    assert "-<h1>Rain</h1>" in page.text
    assert "+<h1>Sun</h1>" in page.text
    assert f'title="{head(api)}"' in page.source
    assert page.link("Files at this state") == f"/chats/c1/files?at={head(api)}"


def test_an_upload_s_state_tells_of_names_that_were_taken(visitor: Visitor, api: Api) -> None:
    api.upload(("rain.csv", b"a\n1\n"))
    api.upload(("rain.csv", b"a\n2\n"))

    assert "rain_1.csv (rain.csv was taken)" in visitor.open("/chats/c1/states/HEAD").text


def test_a_file_that_is_no_text_is_told_as_that(visitor: Visitor, api: Api) -> None:
    api.upload(("raw.bin", bytes(range(256))))

    page = visitor.open("/chats/c1/states/HEAD")

    assert "raw.bin added no text, so there are no lines to compare" in page.text


def test_a_branch_s_head_offers_to_go_there(visitor: Visitor, api: Api) -> None:
    branch_with_work(api)

    page = visitor.send(visitor.open("/chats/c1/states/idea").form("/switch"), "Switch to idea")

    assert "On idea" in page.text


def test_a_state_is_compared_with_a_branch(visitor: Visitor, api: Api) -> None:
    branch_with_work(api)
    form = visitor.open("/chats/c1/states/main").form("/diff")

    page = visitor.send(form, "Compare", new="idea")

    assert "1 file differs" in page.text
    assert "-<h1>Rain</h1>" in page.text
    assert "+<h1>Sun</h1>" in page.text
    assert page.link("Open index.html") == "/chats/c1/files/index.html?at=idea"


def test_a_state_is_compared_with_the_folder_as_it_is_now(visitor: Visitor, api: Api) -> None:
    api.write("index.html", "<h1>Rain</h1>\n")
    same = visitor.open("/chats/c1/diff")
    (api.workspace / "index.html").write_text("<h1>Wind</h1>\n")
    changed = visitor.open("/chats/c1/diff")

    assert "Nothing differs" in same.text
    assert "+<h1>Wind</h1>" in changed.text
    assert "the folder as it is now" in changed.text


def test_a_diff_of_many_files_names_those_it_does_not_show(visitor: Visitor, api: Api) -> None:
    api.upload(*((f"file-{number:02}.txt", b"text\n") for number in range(60)))

    page = visitor.open("/chats/c1/states/HEAD")

    assert "And 10 more" in page.text
    assert page.text.count("+text") == 50
    assert "file-59.txt" in page.text


def test_a_call_of_a_tool_that_does_not_exist_for_the_role_is_not_named(
    root: Path, api: Api
) -> None:
    api.write("index.html", "<h1>Rain</h1>\n")
    configure(root, 'roles: {reader: {allow: ["data-lab.*"]}}\n')
    visitor = Visitor.of(root, role="reader")

    for address in ("/chats/c1", "/chats/c1/states/HEAD", "/chats/c1/files"):
        page = visitor.open(address)

        assert page.status == 200
        assert "write_file" not in page.source
        assert not [one for one in page.links if "/calls/" in one.href]


def test_no_page_of_a_chat_has_what_its_policy_forbids(visitor: Visitor, api: Api) -> None:
    branch_with_work(api)
    for address in ("/chats", "/chats/c1", "/chats/c1/states/HEAD", "/chats/c1/diff?new=idea"):
        page = visitor.open(address)

        assert page.status == 200
        for tag, attributes in page.elements:
            assert not [name for name in attributes if name == "style" or name.startswith("on")]
            assert tag != "style"
            assert tag != "script" or attributes["src"].startswith("/static/")


def test_a_title_is_shown_as_it_was_typed(visitor: Visitor) -> None:
    title = "<script>alert(1)</script> & Co"

    page = visitor.send(visitor.open("/chats").form("/chats"), title=title)

    assert title in page.text
    assert "<script>alert" not in page.source
