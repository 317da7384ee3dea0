"""Pages that mark, fix and edit the files of toolsets, without JavaScript."""

from pathlib import Path

import pytest

from tests.api_client import BEARER, HOME, Api, configure
from tests.server.visitor import Visitor

EDIT = "/toolsets/data-lab/edit/tools/lab.py"
GEAR = "/toolsets/gear/edit/toolset.yaml"


@pytest.fixture
def manifest(root: Path) -> Path:
    """The manifest of a toolset with two misspelt keys."""
    file = root / "toolsets/data-lab/toolset.yaml"
    text = file.read_text().replace("entrypoint", "entrypont", 1)
    file.write_text(text.replace("renderer_config", "renderer_confg", 1))
    return file


def test_the_line_of_each_problem_is_marked_and_its_fix_is_shown_first(
    visitor: Visitor, manifest: Path
) -> None:
    broken = manifest.read_bytes()
    page = visitor.open("/toolsets/data-lab/files/toolset.yaml")
    marked = [one["id"] for one in page.named("span") if one.get("class") == "line marked"]
    wrong = [
        f"L{number}"
        for number, line in enumerate(broken.decode().splitlines(), 1)
        if "entrypont" in line or "renderer_confg" in line
    ]
    # The second mistake is only reported once the first one is fixed, but fixed together.
    assert marked[0] == wrong[0]
    assert set(marked) <= set(wrong)
    # A link to the line moves past the links above the listing, so its note has them too.
    after = page.source.partition(f'id="{marked[0]}"')[2]
    assert after.index('href="/toolsets/data-lab/fix"') < after.index('class="line')

    page = visitor.open(page.link("Fix 2 keys..."))
    assert any(line.strip().startswith("entrypoint") for line in page.changed_lines("add"))
    assert "none left" in page.text
    assert "2 problems are solved." in page.text
    assert "not compared" in page.text
    assert "Allowed after" not in page.text
    assert manifest.read_bytes() == broken

    page = visitor.send(page.form("/fix"), "Fix 2 keys")
    assert "Fixed." in page.text
    assert page.address.endswith("/files/toolset.yaml")
    assert manifest.read_bytes() == broken.replace(b"entrypont", b"entrypoint").replace(
        b"confg", b"config"
    )
    assert not [one for one in page.named("span") if one.get("class") == "line marked"]
    page = visitor.open("/toolsets/data-lab/fix")
    assert "No problem is left." in page.text
    assert "Nothing here can be fixed" not in page.text


def test_a_fix_that_was_shown_is_not_made_after_the_file_has_changed(
    visitor: Visitor, manifest: Path
) -> None:
    form = visitor.open("/toolsets/data-lab/fix").form("/fix")
    manifest.write_text(manifest.read_text() + "# a note\n")
    broken = manifest.read_bytes()

    page = visitor.send(form, "Fix 2 keys")

    assert page.status == 409
    assert manifest.read_bytes() == broken
    visitor.send(page.form("/fix"), "Fix 2 keys")
    assert manifest.read_bytes() != broken


def test_an_edit_is_saved_after_its_effect_was_shown_with_the_bytes_that_a_form_loses(
    visitor: Visitor, root: Path
) -> None:
    file = root / "toolsets/data-lab/tools/lab.py"
    old = b"\xef\xbb\xbf" + file.read_bytes().replace(b"\n", b"\r\n")
    file.write_bytes(old)
    form = visitor.open(EDIT).form(EDIT)
    # A browser sends all line breaks as CR LF, and a text in HTML has none of its own.
    typed = "\r\n".join([*form.fields["content"][0].splitlines(), "# a note", ""])

    page = visitor.send(form, "Review", content=typed)
    assert "Effect of this change" in page.text
    assert "allows neither more nor less" in page.text
    assert file.read_bytes() == old

    # Another text than the one that was shown is shown again.
    more = visitor.send(page.form(EDIT), "Save", content=typed + "# more\r\n")
    assert "has changed since the last review" in more.text
    assert file.read_bytes() == old

    page = visitor.send(page.form(EDIT), "Save", content=typed)
    assert "Saved." in page.text
    assert file.read_bytes() == old + b"# a note\r\n"


def test_a_text_that_cannot_be_saved_is_not_lost(visitor: Visitor, root: Path) -> None:
    file = root / "toolsets/data-lab/tools/lab.py"
    form = visitor.open(EDIT).form(EDIT)
    form = visitor.send(form, "Review", content="x = 1\n").form(EDIT)
    file.write_text("theirs = 1\n")

    page = visitor.send(form, "Save with 4 errors", content="x = 1\n")

    assert page.status == 409
    assert file.read_text() == "theirs = 1\n"
    assert "theirs = 1" in page.changed_lines("del")
    assert page.form(EDIT).fields["content"] == ["x = 1\n"]
    # What the page now shows is the change of the newer file, which the same button does not replace.
    form, button = page.form(EDIT), page.form(EDIT).buttons[0][2].strip()
    assert visitor.send(form, button).status == 409
    assert file.read_text() == "theirs = 1\n"
    assert "4 errors are left" in visitor.send(form, button, replaces="1").text
    assert file.read_text() == "x = 1\n"


def test_all_pages_count_the_same_errors(visitor: Visitor, root: Path) -> None:
    (root / "toolsets/gear").mkdir()
    file = root / "toolsets/gear/toolset.yaml"
    file.write_text('id: gear\nname: Gear\nversion: "1"\nx: 1\ny: 2\nz: 3\n')

    assert "unknown key 'x', and 2 more" in visitor.open("/").text
    for path in ("/", "/toolsets"):
        assert "3 errors" in visitor.open(path).text
    page = visitor.open("/toolsets/gear").text
    assert "3 errors. None of its tools can be called" in page
    assert "Some checks run only after that" in page
    form = visitor.open("/toolsets/gear/edit/toolset.yaml").form("/edit/toolset.yaml")
    typed = form.fields["content"][0].replace("x: 1\n", "")
    review = visitor.send(form, "Review", content=typed)
    assert "2 errors left" in review.text
    saved = visitor.send(review.form("/edit/toolset.yaml"), "Save with 2 errors", content=typed)
    assert "Saved. 1 problem is solved. 2 errors are left: the first is" in saved.text
    assert saved.link("toolsets/gear/toolset.yaml:4") == "/toolsets/gear/files/toolset.yaml#L4"
    # The buttons of the file's page lead to the same place.
    assert {one.href for one in saved.links if "/edit/" in one.href} >= {f"{GEAR}?line=4&col=1"}
    assert saved.link("Edit") == f"{GEAR}?line=4&col=1"


def test_the_review_says_what_is_allowed_in_addition_and_what_no_longer(
    visitor: Visitor, root: Path
) -> None:
    (root / "toolsets/gear").mkdir()
    url = "https://api.example.com/x"
    (root / "toolsets/gear/toolset.yaml").write_text(
        'id: gear\nname: Gear\nversion: "1"\ntools:\n  - id: get\n    description: Get it\n'
        f"    http: {{method: GET, url: '{url}'}}\n    input_schema: {{type: object}}\n"
    )
    form = visitor.open("/toolsets/gear/edit/toolset.yaml").form("/edit/toolset.yaml")
    typed = form.fields["content"][0].replace("api", "other")

    page = visitor.send(form, "Review", content=typed)

    more, less = (
        page.text.index("Allowed after this change, and not before"),
        page.text.index("No longer allowed"),
    )
    assert more < page.text.index("gear:get sends GET https://other.example.com/x") < less
    assert less < page.text.index(f"gear:get no longer sends GET {url}")


def test_an_imported_toolset_needs_the_box(visitor: Visitor, root: Path) -> None:
    (root / "toolsets/state").mkdir(exist_ok=True)
    (root / "toolsets/state/data-lab.yaml").write_text("enabled: true\nsource_type: local\n")
    file = root / "toolsets/data-lab/tools/lab.py"
    old = file.read_bytes()
    form = visitor.open(EDIT).form(EDIT)
    typed = form.fields["content"][0] + "# a note\n"
    page = visitor.send(form, "Review", content=typed)
    assert "This toolset is imported" in page.text
    # The box is far above the button in a long review.
    assert "Tick Change it all the same above first." in page.text
    (box,) = (field for field in page.named("input") if field.get("name") == "local_change")
    assert page.link("Change it all the same") == f"#{box['id']}"

    again = visitor.send(page.form(EDIT), "Save", content=typed)
    assert again.status == 409
    assert file.read_bytes() == old
    visitor.send(page.form(EDIT), "Save", content=typed, local_change="1")
    assert file.read_bytes() == old + b"# a note\n"


def test_a_role_that_is_no_admin_gets_no_button_and_no_editor(visitor: Visitor, root: Path) -> None:
    (root / "toolsets/gear").mkdir()
    (root / "toolsets/gear/toolset.yaml").write_text(
        'id: gear\nname: Gear\nversion: "1"\nmcp_servers:\n  - {id: disk, command: python3}\n'
    )
    configure(root, "default_role: r\nroles: {r: {allow: ['**']}, owner: {admin: true}}\n")
    source = visitor.open("/toolsets/data-lab/files/tools/lab.py")
    assert "use your editor" in source.text
    assert not [one for one in source.links if "/edit/" in one.href]
    assert not [one for one in visitor.open("/toolsets/gear").links if "/edit/" in one.href]
    for path in (EDIT, "/toolsets/data-lab/fix"):
        assert visitor.open(path).status == 403


def test_a_page_is_shown_as_a_result_is_only_in_a_frame(visitor: Visitor) -> None:
    client = visitor.app.test_client()
    address = "/toolsets/data-lab/pages/artifacts/chart.html"
    assert client.get(address, base_url=HOME, headers=BEARER).status_code == 403

    typed = client.post(
        address,
        base_url=HOME,
        data={"content": "<title>typed</title>", "example": "nothing"},
        headers={**BEARER, "Sec-Fetch-Dest": "iframe"},
    )
    assert b"window.__TOOL_DATA__ = null" in typed.data
    assert typed.headers["Content-Security-Policy"].startswith("sandbox allow-scripts; ")
    assert "webrtc=block" in typed.headers["Connection-Allowlist"]


def test_the_review_of_a_renamed_server_counts_its_problem_once_and_names_the_grant(
    visitor: Visitor, api: Api, root: Path
) -> None:
    folder, state = root / "toolsets/gear", root / "toolsets/state/gear.yaml"
    folder.mkdir()
    (folder / "toolset.yaml").write_text(
        'id: gear\nname: Gear\nversion: "1"\nmcp_servers:\n'
        "  - {id: disk, command: python3, args: [gone.py]}\n"
    )
    notes = root.parent / "notes"
    notes.mkdir()
    grant = {"kind": "server", "name": "disk", "folders": [str(notes)]}
    api.post("add_grant", toolset_id="gear", **grant)
    state.write_text(f"{state.read_text()}enabled: true\nsource_type: local\n")
    form = visitor.open("/toolsets/gear/edit/toolset.yaml").form("/edit/toolset.yaml")
    typed = form.fields["content"][0].replace("disk", "disc")

    page = visitor.open("/toolsets/gear")
    assert page.link("Edit disk") == f"{GEAR}?line=5&col=10"
    page = visitor.send(form, "Review", content=typed)
    assert "1 warning left" in page.text
    assert "solved" not in page.text
    assert "signed" not in page.text
    assert "The grants that end by it are listed above" in page.text
    # The new server starts nothing before its grant, which the page also says.
    assert "asks for more" in page.text
    assert "Allowed after this change" not in page.text
    asked = page.text.partition("Asked for after this change; ")[2]
    assert "server gear:disc starts python3 gone.py" in asked
    assert "A renamed server needs a grant of its own" in asked

    form = page.form("/edit/toolset.yaml")
    page = visitor.send(form, "Save", content=typed, local_change="1")
    assert "1 MCP server of this toolset has no grant." in page.text
    assert "Saved. 1 warning is left: toolsets/gear/toolset.yaml:5 CG" in page.text
    assert page.link("Review the grants").endswith("/toolsets/gear#grants")

    # The new server gets no folder by itself, so the page says which one the old grant had.
    page = visitor.open("/toolsets/gear")
    assert page.link("See what it allowed") == page.link("See what was granted before")
    ended = page.source.partition(f'id="{page.link("See what it allowed")[1:]}"')[2]
    assert f"<code>the folder {notes}</code>" in ended.partition("</ul>")[0]
    again = visitor.send(page.form("/grants/requested"))
    assert f"the folder {notes}" not in again.source.partition('id="server-disc"')[2]
