"""Pages of chats: their history, branches, states and differences."""

import re

from tests.api_client import Api
from tests.server.visitor import Page, Visitor


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


def test_a_chat_is_made_with_a_title_that_is_shown_as_typed(visitor: Visitor) -> None:
    title = "<script>alert(1)</script> & Co"
    page = visitor.send(visitor.open("/chats").form("/chats"), title=title)

    assert page.address == "/chats/c1"
    assert title in page.text
    assert "<script>alert" not in page.source
    assert visitor.send(visitor.open("/chats").form("/chats")).title.startswith("c2")
    assert visitor.open("/chats/c11").status == 404
    assert visitor.open("/chats/" + "c" * 300).status == 400


def test_the_history_leads_from_each_state_to_what_made_it(visitor: Visitor, api: Api) -> None:
    api.upload(("rain.csv", b"a\n1\n"))
    call = api.write("index.html", "<h1>Rain</h1>\n")
    failed = api.call("app-builder:read_file", path="missing.txt")
    (api.workspace / "notes.md").write_text("by hand")
    (api.workspace / "huge.bin").write_bytes(b"x" * (1 << 20) + b"x")
    before = visitor.open("/chats/c1/history")
    page = visitor.send(before.form("/chats/c1/edits"))

    assert "notes.md" in before.text
    assert "huge.bin" in before.text
    assert "/chats/c1/edits" not in [form.action for form in page.forms]
    dots = [one for one in page.named("circle") if "lane" in one.get("class", "")]
    assert len(rows(page)) == len(dots) == 4
    assert "rain.csv" in page.text
    assert page.link("Write file") == f"/chats/c1/calls/{call['id']}"
    assert page.link("Read file") == f"/chats/c1/calls/{failed['id']}"
    assert "+1" in page.text
    assert "no such file" in page.text.lower() or "missing.txt" in page.text


def test_a_pending_call_leads_to_its_approval(visitor: Visitor, api: Api) -> None:
    call = api.call("app-builder:run_command", command="ls")

    page = visitor.open("/chats/c1/history")
    assert page.link("app-builder:run_command") == f"/approvals/{call['execution_id']}"


def test_a_branch_starts_at_any_state_with_an_available_name(visitor: Visitor, api: Api) -> None:
    api.write("index.html", "<h1>Rain</h1>\n")
    first = head(api)
    api.write("index.html", "<h1>Sun</h1>\n")
    page = visitor.open("/chats/c1/history")
    form = next(one for one in page.forms if one.fields.get("from_manifest") == [first])
    assert form.fields["suggested"] == ["retry-1"]

    visitor.send(form, "Branch")
    assert (head(api), (api.workspace / "index.html").read_text()) == (first, "<h1>Rain</h1>\n")

    form = visitor.open("/chats/c1/states/HEAD").form("/branches")
    assert form.fields["suggested"] == ["retry-2"]
    del form.fields["switch"]
    visitor.send(form, "Branch", name="later")
    assert api.get("get_chat", chat_id="c1")["active_branch"] == "retry-1"
    assert visitor.send(form, "Branch", name="main").status == 409

    there = visitor.open("/chats/c1/states/main").form("/switch")
    visitor.send(there)
    assert (api.workspace / "index.html").read_text() == "<h1>Sun</h1>\n"


def test_a_state_is_compared_with_a_branch_and_with_the_folder(visitor: Visitor, api: Api) -> None:
    branch_with_work(api)
    page = visitor.send(visitor.open("/chats/c1/states/main").form("/diff"), new="idea")
    (api.workspace / "index.html").write_text("<h1>Wind</h1>\n")

    assert "<h1> Rain </h1>" in page.text
    assert "<h1> Sun </h1>" in page.text
    assert page.link("Open index.html") == "/chats/c1/files/index.html?at=idea"
    assert "<h1> Wind </h1>" in visitor.open("/chats/c1/diff").text
