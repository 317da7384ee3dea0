"""Pages of ``covalt.yaml``: no dead end while it has errors, without JavaScript."""

from pathlib import Path

import pytest

from tests.api_client import Api, configure
from tests.server.visitor import Visitor

EDIT = "/config/edit"


@pytest.fixture
def config(root: Path) -> Path:
    """The file, with a misspelt key."""
    file = root / "covalt.yaml"
    file.write_text(file.read_text().replace("workspace", "workspac"))
    return file


@pytest.mark.usefixtures("config")
def test_each_page_leads_to_the_fix_of_a_broken_file_which_needs_no_restart(
    visitor: Visitor,
) -> None:
    for address in ("/", "/toolsets", "/chats/c1", "/nowhere"):
        page = visitor.open(address)
        if address != "/nowhere":
            assert "unknown key 'workspac'" in page.text
            assert page.link("covalt.yaml:2:1").endswith("/config#L2")
        page = visitor.open(
            page.link("Show and repair covalt.yaml" if address != "/nowhere" else "Start page")
        )
    page = visitor.open("/config")
    marked = [one["id"] for one in page.named("span") if one.get("class") == "line marked"]
    assert marked == ["L2"]
    assert {one.href for one in page.links if "/edit" in one.href} == {f"{EDIT}?line=2&col=1"}

    page = visitor.open(page.link("Fix..."))
    assert any(line.startswith("workspace:") for line in page.changed_lines("add"))
    page = visitor.send(page.form("/config/fix"), "Fix it")
    assert "Fixed. No problem is left." in page.text
    # As after the browser has gone back.
    assert "No problem is left. Edit covalt.yaml" in visitor.open("/config/fix").text
    assert visitor.open("/toolsets").status == 200


def test_the_fix_counts_the_keys_that_it_lists(visitor: Visitor, config: Path) -> None:
    # The key in the mapping is only checked once the name of the mapping is right.
    config.write_text("version: 1\nworkspac: {max_stor_mb: 5}\n")
    page = visitor.open("/config/fix")
    assert page.changed_lines("add") == ["workspace: {max_store_mb: 5}"]
    assert "2 problems are solved." in page.text
    assert "Fixed. No problem is left." in visitor.send(page.form("/config/fix"), "Fix 2 keys").text


def test_the_editor_saves_after_the_effect_was_shown(visitor: Visitor, config: Path) -> None:
    broken = config.read_bytes()
    page = visitor.send(visitor.open(EDIT).form(EDIT), "Review", content="version: 1\nroles: {}\n")
    assert "Effect of this change" in page.text
    assert config.read_bytes() == broken
    # The keyboard goes on at what the answer shows.
    assert [one["aria-labelledby"] for one in page.named("section") if "autofocus" in one] == [
        "effect"
    ]
    assert not [one for one in page.named("textarea") if "autofocus" in one]
    page = visitor.send(page.form(EDIT), "Save", content="version: 1\nroles: {}\n")
    assert "Saved." in page.text
    assert config.read_text() == "version: 1\nroles: {}\n"


def test_a_missing_file_is_created_and_what_is_no_text_is_named(
    visitor: Visitor, config: Path
) -> None:
    config.unlink()
    page = visitor.open(visitor.open("/").link("Show and repair covalt.yaml"))
    page = visitor.open(page.link("Create it"))
    text = page.form(EDIT).fields["content"][0]
    page = visitor.send(page.form(EDIT), "Review", content=text)
    page = visitor.send(page.form(EDIT), "Save", content=text)
    assert config.read_text() == "version: 1\n"

    config.write_bytes(b"\xff")
    page = visitor.open(visitor.open("/").link("Show and repair covalt.yaml"))
    assert "is not a text in UTF-8" in page.text
    config.unlink()
    config.mkdir()
    assert "is a folder" in visitor.open(page.link("Check again")).text


def test_who_may_not_repair_a_broken_file_is_told_what_to_do_without_a_loop(
    visitor: Visitor, config: Path
) -> None:
    config.write_text(f"{config.read_text()}roles: {{r: {{allow: ['**']}}}}\n")
    for address, status in (("/", 400), ("/config", 403)):
        page = visitor.open(address)
        assert page.status == status
        assert "covalt.yaml:2:1" in page.text
        assert "unknown key 'workspac'" in page.text
        assert "in an editor on the server's machine" in page.text
        assert '"/config' not in page.source


def test_a_role_that_is_no_admin_does_not_see_the_file(visitor: Visitor, root: Path) -> None:
    configure(root, "default_role: r\nroles: {r: {allow: ['**']}, owner: {admin: true}}\n")
    for address in ("/config", "/config/fix", EDIT):
        assert visitor.open(address).status == 403
    assert "/config" not in visitor.open("/policy").source


def test_an_admin_finds_the_file_on_the_page_of_the_policy(visitor: Visitor) -> None:
    page = visitor.open("/policy")
    assert visitor.open(page.link("covalt.yaml")).address.endswith("/config")


def test_a_newer_file_is_replaced_only_by_who_says_so(visitor: Visitor, root: Path) -> None:
    file = root / "covalt.yaml"
    mine = file.read_text() + "# mine\n"
    form = visitor.send(visitor.open(EDIT).form(EDIT), "Review", content=mine).form(EDIT)
    theirs = file.read_text() + "# theirs\n"
    file.write_text(theirs)

    page = visitor.send(form, "Save", content=mine)
    assert page.status == 409
    assert "# theirs" in page.changed_lines("del")
    assert page.form(EDIT).fields["content"] == [mine]
    assert visitor.open(page.link("Open the file as it is now")).address.endswith("/config")

    # The same button again, also after another review, is not enough.
    page = visitor.send(page.form(EDIT), "Replace", content=mine)
    assert page.status == 409
    page = visitor.send(page.form(EDIT), "Review again", content=f"{mine}# more\n")
    page = visitor.send(page.form(EDIT), "Replace", content=f"{mine}# more\n")
    assert file.read_text() == theirs
    visitor.send(page.form(EDIT), "Replace", content=f"{mine}# more\n", replaces="1")
    assert file.read_text() == f"{mine}# more\n"


def test_a_newer_file_of_a_chat_is_replaced_only_by_who_says_so(visitor: Visitor, api: Api) -> None:
    address = "/chats/c1/files/notes.md"
    api.write("notes.md", "first\n")
    form = visitor.open(f"{address}?view=edit").form(address)
    api.write("notes.md", "theirs\n")

    page = visitor.send(form, content="mine\n")
    assert page.status == 409
    assert page.link("Open the file as it is now") == address
    assert "theirs" in page.changed_lines("del")
    form = page.form(address)
    assert visitor.send(form, content="mine\n").status == 409
    assert api.read("notes.md").get_data() == b"theirs\n"
    visitor.send(form, content="mine\n", replaces="1")
    assert api.read("notes.md").get_data() == b"mine\n"
