"""Pages that import a document whose toolset exists already: nothing of it is replaced without a choice."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import Page as Browsed
from playwright.sync_api import expect

from covalt_git import yaml_text
from covalt_git.trust import Consents
from tests.api_client import Api, form_file
from tests.live_server import Live
from tests.server.visitor import Form, Page, Visitor
from tests.trusting import use_config


def configuration(*servers: str) -> bytes:
    entries = {name: {"command": "npx", "args": ["-y", f"{name}-server"]} for name in servers}
    return json.dumps({"mcpServers": entries}).encode()


def form_with(page: Page, button: str) -> Form:
    """Return the form that has a button with these words."""
    return next(form for form in page.forms if button in {words for *_, words in form.buttons})


def review(visitor: Visitor, *servers: str, name: str = "mcp.json") -> Page:
    form = visitor.open("/imports").form("/imports")
    return visitor.send(form, "Review", file=form_file(name, configuration(*servers)))


def servers_of(root: Path, toolset_id: str) -> list[str]:
    text = (root / "toolsets" / toolset_id / "toolset.yaml").read_bytes()
    return [server["id"] for server in yaml_text.load(text, "").data["mcp_servers"]]


@pytest.mark.parametrize(
    ("existing", "button", "left"),
    [
        ("add", "Add to mcp", {"mcp": ["files", "time"]}),
        ("replace", "Replace mcp", {"mcp": ["time"]}),
        ("name", "Import", {"mcp": ["files"], "mcp-2": ["time"]}),
    ],
)
def test_a_second_document_of_a_name_replaces_only_what_the_user_chooses(
    visitor: Visitor, root: Path, existing: str, button: str, left: dict[str, list[str]]
) -> None:
    visitor.send(form_with(review(visitor, "files"), "Import"), "Import")
    page = review(visitor, "time")
    assert "A toolset mcp exists" in page.text
    assert "server files" in page.text
    assert "Update" not in page.text

    chosen = visitor.send(form_with(page, "Continue"), "Continue", existing=existing)
    visitor.send(form_with(chosen, button), button)

    assert {name: servers_of(root, name) for name in left} == left


def test_a_name_without_a_choice_is_the_choice_of_another_name(
    visitor: Visitor, root: Path
) -> None:
    visitor.send(form_with(review(visitor, "files"), "Import"), "Import")
    page = review(visitor, "time")
    radios = [field for field in page.named("input") if field.get("type") == "radio"]
    assert len(radios) == 3
    # The browser would refuse the form, and move the focus to the choice that replaces.
    assert not any("required" in radio or "checked" in radio for radio in radios)

    form = form_with(page, "Continue")
    empty = visitor.send(form, "Continue", toolset_id="")
    assert "Enter another name, or choose what happens to the toolset." in empty.text
    visitor.send(form_with(visitor.send(form, "Continue", toolset_id="third"), "Import"), "Import")
    assert servers_of(root, "mcp") == ["files"]
    assert servers_of(root, "third") == ["time"]


def test_typing_another_name_chooses_it(root: Path, page: Browsed, served: Live) -> None:
    file = form_file("mcp.json", configuration("files"))
    Api.of(root).send_form("import_toolset", {"file": file})
    page.goto(f"{served.url}/imports")
    page.locator("input[name=file]").set_input_files(
        {"name": "mcp.json", "mimeType": "", "buffer": configuration("time")}
    )
    page.get_by_role("button", name="Review", exact=True).click()
    page.get_by_role("radio", name="Replace it").focus()
    page.keyboard.press("Tab")
    page.keyboard.type("third")
    expect(page.get_by_role("radio", name="Another name")).to_be_checked()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Import", exact=True).first).to_be_visible()
    expect(page.get_by_role("radio")).to_have_count(0)


def test_a_review_says_what_a_second_document_lacks_and_changes_before_the_choice(
    visitor: Visitor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: Path
) -> None:
    use_config(monkeypatch, tmp_path / "config", trusts=False)
    Consents.of(root).trust_new_project()
    visitor.send(form_with(review(visitor, "files", "time"), "Import"), "Import")
    visitor.send(visitor.open("/toolsets/mcp").form("/grants/requested"))
    other = json.dumps({"mcpServers": {"time": {"command": "uvx", "args": ["clock"]}}}).encode()
    form = visitor.open("/imports").form("/imports")
    page = visitor.send(form, "Review", file=form_file("mcp.json", other))

    assert "This file lacks server files . This file changes server time ." in page.text
    assert "not possible: time in mcp_servers is different" in page.text
    (add,) = [one for one in page.named("input") if one.get("value") == "add"]
    assert "disabled" in add
    page = visitor.send(form_with(page, "Continue"), "Continue", existing="replace")
    assert "2 grants end: the permission to start files (" in page.text


def test_a_second_document_under_another_id_has_another_name(visitor: Visitor) -> None:
    visitor.send(form_with(review(visitor, "files", "time"), "Import"), "Import")
    page = review(visitor, "web", "maps")
    chosen = visitor.send(form_with(page, "Continue"), "Continue", existing="name")
    visitor.send(form_with(chosen, "Import"), "Import")

    text = visitor.open("/toolsets").text
    assert "MCP servers (mcp)" in text
    assert "MCP servers (mcp-2)" in text


def test_an_import_whose_servers_fail_names_each_in_a_message_that_is_not_green(
    visitor: Visitor, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_config(monkeypatch, tmp_path / "config")
    Consents.of(root).trust_new_project()
    gear = root / "toolsets/gear"
    gear.mkdir()
    text = 'id: gear\nname: Gear\nversion: "1"\nmcp_servers: [{id: clock, command: "true"}]\n'
    (gear / "toolset.yaml").write_text(text)
    servers = {name: {"command": "python3", "args": ["-c", "0"]} for name in ("clock", "time")}
    document = json.dumps({"mcpServers": servers}).encode()
    page = visitor.open("/imports")
    page = visitor.send(page.form("/imports"), "Review", file=form_file("mcp.json", document))
    form = next(form for form in page.forms if "permission" in form.fields)
    (digest,) = [one["value"] for one in page.named("input") if one.get("name") == "trust"]
    page = visitor.send(form, "Import", trust=digest)

    notice = next(one for one in page.named("p") if "data-message" in one)
    assert notice["class"] == "notice warn"
    assert "mcp/clock and mcp/time did not list their tools" in page.text
    assert "'gear' already has the namespace 'clock'" in page.text
    assert "because clock and time did not list them" in page.text


def test_a_document_with_the_name_of_an_own_toolset_gets_another_name(
    visitor: Visitor, root: Path
) -> None:
    page = review(visitor, "time", name="text-kit.json")
    assert page.status == 200
    visitor.send(form_with(page, "Import"), "Import")
    assert servers_of(root, "text-kit-2") == ["time"]


def test_a_grant_of_a_replaced_server_is_revoked_where_its_notice_is(
    visitor: Visitor, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_config(monkeypatch, tmp_path / "config", trusts=False)
    Consents.of(root).trust_new_project()
    visitor.send(form_with(review(visitor, "files"), "Import"), "Import")
    visitor.send(visitor.open("/toolsets/mcp").form("/grants/requested"))
    visitor.send(visitor.open("/toolsets/mcp").form("/enabled"))
    chosen = visitor.send(
        form_with(review(visitor, "time"), "Continue"), "Continue", existing="replace"
    )
    page = visitor.send(form_with(chosen, "Replace mcp"), "Replace mcp")

    assert "covalt-git trust" not in page.text
    # It permits nothing, so nothing is refused and the start page has no need.
    assert "If a pull brings a server of that name back" in page.text
    assert "not trusted" not in visitor.open("/toolsets").text
    button = "Revoke the grant of files"
    page = visitor.send(form_with(page, button), button)
    assert "that it no longer has" not in visitor.open("/toolsets/mcp").text


@pytest.mark.rest
def test_a_second_file_with_the_same_servers_leaves_the_enabled_toolset_without_error(
    visitor: Visitor,
) -> None:
    page = visitor.send(
        form_with(review(visitor, "files", name="servers.json"), "Import"), "Import"
    )
    # The message has the button of the next step; the missing grant is the first one.
    assert page.link("Show it") == "/toolsets/servers#grants"
    visitor.send(page.form("/enabled"))

    page = review(visitor, "files", name="more.json")
    assert "The toolset 'servers' keeps the namespace 'files'" in page.text
    assert "aliases: {files: more-files}" in page.text
    assert "instead, because it is disabled" not in page.text
    assert "Its tools are not known yet" in page.text
    assert "Version" not in page.text  # a document has none
    imported = visitor.send(form_with(page, "Import"), "Import")
    assert "'servers' already has the namespace 'files'" in imported.text
    assert "/toolsets/more/edit/toolset.yaml?line=6&col=9" in [link.href for link in imported.links]

    assert "CG401" not in visitor.open("/toolsets/servers").text
    assert "/toolsets/more/files/toolset.yaml#L6" in visitor.open("/").source

    # Without the first toolset, the second one has the namespace once it is enabled.
    visitor.send(visitor.open("/toolsets/servers").form("/enabled"))
    third = review(visitor, "files", name="third.json")
    assert "the toolset 'servers' keeps" in third.text.lower()
    assert "If you enable it, 'servers' gets an error instead" in third.text
