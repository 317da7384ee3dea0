"""Toolsets that come, are granted something and go on the pages, by people without JavaScript."""

from __future__ import annotations

import os
import re
from pathlib import Path
from uuid import UUID

import pytest
from werkzeug.datastructures import FileStorage

from tests.api_client import BEARER, HOME, Api, configure, form_file
from tests.installs.hostile_bundles import GOOD, TOOL, File, archive
from tests.installs.test_uninstall import commit
from tests.server.outside import Outside
from tests.server.sample_bundle import DEMO, MANIFEST
from tests.server.visitor import Page, Visitor
from tests.ssh_keys import Key, make_key

HOSTILE = MANIFEST.replace(
    b"name: Demo", b'name: "<img src=x onerror=alert(1)> {{ 7 * 7 }} {% raw %}"'
).replace(b"maps-server", b"'<script>alert(1)</script>'")

LOOK = """\
id: look
name: Look
version: "1"
secrets: [LOOK_KEY]
tools:
  - {id: look, entrypoint: "tools.look:look"}
"""


def look_toolset(root: Path, manifest: str = LOOK) -> None:
    """Write a toolset whose Python uses a secret."""
    (root / "toolsets/look/tools").mkdir(parents=True, exist_ok=True)
    (root / "toolsets/look/tools/look.py").write_text("def look() -> None: ...\n")
    (root / "toolsets/look/toolset.yaml").write_text(manifest)


def below(folder: Path) -> list[tuple[str, bytes]]:
    """Return every path below a folder with its content, without the index."""
    return sorted(
        (str(path.relative_to(folder)), path.read_bytes() if path.is_file() else b"")
        for path in folder.rglob("*")
        if "index.db" not in path.name
    )


@pytest.fixture
def visitor(root: Path) -> Visitor:
    return Visitor.of(root)


def chosen(content: bytes, name: str = "demo.zip") -> FileStorage:
    return form_file(name, content)


def look_at(visitor: Visitor, content: bytes, name: str = "demo.zip") -> Page:
    """Choose a file on the page of imports, and have it looked at."""
    form = visitor.open(visitor.open("/toolsets").link("Import")).forms[1]
    return visitor.send(form, "Look at it", file=chosen(content, name))


def staged_folders(root: Path) -> list[Path]:
    return list((root / "data").glob(".incoming-*"))


def take_in(visitor: Visitor, content: bytes) -> Page:
    return visitor.send(look_at(visitor, content).forms[1], "Take it in")


def test_a_toolset_comes_is_granted_a_host_called_sent_on_and_removed(
    visitor: Visitor, api: Api
) -> None:
    with Outside() as outside:
        outside.pages["/here"] = ({"Content-Type": "text/plain"}, b"found it")
        host = f"127.0.0.1:{outside.port}"
        manifest = (
            'id: far\nname: Far\nversion: "2"\ntools:\n'
            f'  - {{id: look, http: {{url: "http://{host}/here"}}, input_schema: {{type: object}}}}\n'
        )
        review = look_at(visitor, archive((File(b"toolset.yaml", manifest.encode()),)))
        assert "It is not here yet" in review.text
        assert f"Its HTTP tool sends requests to {host} , once that is granted." in review.text
        assert not (api.root / "toolsets/far").exists()

        here = visitor.send(review.forms[1], "Take it in")
        assert "switched off, with nothing granted to it" in here.text
        on = visitor.send(here.form("/enabled"), "Enable far")
        granted = visitor.send(on.form("/grants"), f"Grant network {host}")
        assert "Granted, until a file of it changes." in granted.text
        assert outside.requests == []

        form = visitor.open("/tools/far:look?chat=c1").form("look")
        assert "found it" in visitor.send(form, "Run").text
        sent = api.client().get("/toolsets/far/export", base_url=HOME, headers=BEARER)
        assert sent.headers["Content-Disposition"] == "attachment; filename=far-2.zip"
        assert sent.get_data() == api.ask("export_toolset", toolset_id="far").get_data()

    asked = visitor.open(visitor.open("/toolsets/far").link("Uninstall..."))
    assert "1 grant" in asked.text
    assert "nothing could bring it back" in asked.text
    refused = visitor.send(asked.form("/uninstall"), "Uninstall far")
    assert (refused.status, "nothing could bring it back" in refused.text) == (409, True)
    gone = visitor.send(refused.form("/uninstall"), "Uninstall far", force="on")
    assert "Removed. Chats keep what it did." in gone.text
    assert not (api.root / "toolsets/far").exists()
    (call,) = api.get("list_calls", chat_id="c1")["calls"]
    assert "found it" in visitor.open(f"/chats/c1/calls/{call['id']}").text


def test_all_that_it_is_stands_on_the_page_before_it_comes(visitor: Visitor, root: Path) -> None:
    page = look_at(visitor, archive((File(b"toolset.yaml", HOSTILE), GOOD[1])), "its & name.zip")

    assert page.status == 200
    assert page.title.startswith("Import demo")
    assert "<img src=x onerror=alert(1)> {{ 7 * 7 }} {% raw %}" in page.text
    assert len(page.named("img")) == 1  # the brand's
    assert "<script>alert(1)</script> --stdio a b with the variables KEY" in page.text
    assert "asks for the secret MAPS_KEY , to send it to maps.example" in page.text
    assert "packages that others made: tinypkg" in page.text
    assert "1 of its 2 tools asks a person first" in page.text
    assert "its & name.zip" in page.text
    assert re.search("sha256:[0-9a-f]{64}", page.text)
    assert not (root / "toolsets/demo").exists()


def test_what_is_refused_is_told_whole_and_leaves_nothing(visitor: Visitor, root: Path) -> None:
    visitor.open("/toolsets")  # which makes the index
    before = below(root)
    page = look_at(visitor, archive((*GOOD, File(b"tools/../../evil"), File(b"/<b>evil"))))

    assert page.status == 422
    assert "'demo.zip' is not taken" in page.text
    assert "demo.zip/tools/../../evil CG305" in page.text
    assert "demo.zip//<b>evil" in page.text
    assert look_at(visitor, b"", "").status == 400
    form = visitor.open("/imports").forms[2]
    away = visitor.send(form, "Fetch and look at it", url="http://far.example/demo.zip")
    assert (away.status, "is not https" in away.text) == (502, True)
    assert away.forms[2].fields["url"] == ["http://far.example/demo.zip"]
    assert below(root) == before


def test_a_bundle_is_imported_once_and_not_after_it_expired(visitor: Visitor, root: Path) -> None:
    form = look_at(visitor, DEMO).forms[1]
    (staged,) = staged_folders(root)
    then = staged.stat().st_mtime - 3601
    os.utime(staged, (then, then))

    expired = visitor.send(form, "Take it in")
    assert (expired.status, "The bundle is gone" in expired.text) == (404, True)
    assert visitor.open(form.action).status == 404
    assert not (root / "toolsets/demo").exists()

    form = look_at(visitor, DEMO).forms[1]
    assert visitor.send(form, "Take it in").status == 200
    assert visitor.send(form, "Take it in").status == 404
    manifest = MANIFEST.replace(b"id: demo", b"id: data-lab")
    own = look_at(visitor, archive((File(b"toolset.yaml", manifest), GOOD[1])))
    assert (own.status, "'data-lab' is the project's own" in own.text) == (409, True)
    assert staged_folders(root) == []


def newer(version: str, **changed: bytes) -> bytes:
    files = {
        "toolset.yaml": MANIFEST.replace(b'"1.2"', f'"{version}"'.encode()),
        "tools/a.py": TOOL,
    }
    return archive(
        tuple(File(name.encode(), content) for name, content in (files | changed).items())
    )


def test_an_update_is_looked_at_file_by_file_and_loses_no_change(
    visitor: Visitor, root: Path
) -> None:
    take_in(visitor, DEMO)
    assert "Nothing in it is newer" in look_at(visitor, DEMO).text
    tool = root / "toolsets/demo/tools/a.py"
    tool.write_bytes(TOOL + b"# ours\n")

    page = look_at(visitor, newer("1.3", **{"new.md": b"new"}))
    assert "Version 1.2 of it is here." in page.text
    assert "added new.md" in page.text
    assert "yours stays tools/a.py" in page.text
    here = visitor.send(page.forms[1], "Update it")
    assert "Updated, with what was changed here." in here.text
    assert "1.3" in here.text
    changes = visitor.open(here.link("changed since"))
    assert "+# ours" in changes.text
    assert "1 file differs" in changes.text

    page = look_at(visitor, newer("1.4", **{"tools/a.py": TOOL + b"# theirs\n"}))
    assert "Both sides changed the same in 1 file" in page.text
    here = visitor.send(page.forms[1], "Update it")
    assert "decide it, and its tools can be called again" in here.text
    assert tool.read_bytes() == TOOL + b"<<<<<<< yours\n# ours\n=======\n# theirs\n>>>>>>> 1.4\n"

    tool.write_bytes(TOOL + b"# ours\n")
    page = look_at(visitor, newer("1.5"))
    visitor.send(page.forms[1], "Update it, and give up what was changed here")
    assert tool.read_bytes() == TOOL


def test_what_is_newer_at_its_address_is_fetched_when_somebody_asks(
    visitor: Visitor, root: Path
) -> None:
    with Outside() as outside:
        outside.pages["/demo.zip"] = ({}, DEMO)
        page = visitor.open("/imports")
        form = page.forms[2]
        review = visitor.send(form, url=f"http://127.0.0.1:{outside.port}/demo.zip")
        here = visitor.send(review.forms[1], "Take it in")
        outside.requests.clear()
        outside.pages["/demo.zip"] = ({}, newer("2"))
        visitor.open("/toolsets/demo")
        assert outside.requests == []

        review = visitor.send(here.form("/newer"), "Look for an update")

        assert "Version 1.2 of it is here." in review.text
        visitor.send(review.forms[1], "Update it")
        assert 'version: "2"' in (root / "toolsets/demo/toolset.yaml").read_text()


def test_who_signed_it_is_told_and_another_has_to_be_accepted(
    visitor: Visitor, root: Path, tmp_path: Path
) -> None:
    ann, bob = make_key(tmp_path, "ann"), make_key(tmp_path, "bob")
    configure(root, f"signers: ['{ann.allowed('ann')}', '{bob.allowed('bob')}']\n")
    form = visitor.open("/imports").forms[1]

    def signed_by(key: Key, content: bytes) -> Page:
        signature = form_file("demo.zip.sig", key.sign(content))
        return visitor.send(form, file=chosen(content), signature=signature)

    wrong = visitor.send(
        form, file=chosen(DEMO), signature=form_file("x.sig", ann.sign(DEMO + b"!"))
    )
    assert (wrong.status, "Nothing was taken in." in wrong.text) == (422, True)
    page = signed_by(ann, DEMO)
    assert "Signed by ann" in page.text
    here = visitor.send(page.forms[1], "Take it in")
    assert f"ann {ann.fingerprint[:19]}" in here.text

    page = signed_by(bob, newer("2"))
    assert "I know that somebody else signed it" in page.text
    refused = visitor.send(page.forms[1], "Update it")
    assert refused.status == 409
    assert b'"1.2"' in (root / "toolsets/demo/toolset.yaml").read_bytes()
    visitor.send(page.forms[1], "Update it", accept_signer="on")
    assert b'"2"' in (root / "toolsets/demo/toolset.yaml").read_bytes()


def test_who_does_not_want_it_leaves_nothing(visitor: Visitor, root: Path) -> None:
    page = visitor.send(look_at(visitor, DEMO).form("/drop"), "Do not")

    assert "Nothing was taken in." in page.text
    assert staged_folders(root) == []
    assert not (root / "toolsets/demo").exists()


def test_grants_stand_beside_what_is_asked_for_and_say_whether_they_hold(
    visitor: Visitor, root: Path
) -> None:
    page = take_in(visitor, DEMO)
    assert "maps.example (port 443) asked for not granted" in page.text
    form = next(one for one in page.forms if one.fields.get("name") == ["MAPS_KEY"])
    wrong = visitor.send(form, hosts="a/b")

    assert wrong.status == 400
    assert "'a/b' is not a network" in wrong.text
    field = next(one for one in wrong.named("input") if one.get("aria-invalid"))
    assert (field["value"], field["name"]) == ("a/b", "hosts")

    page = visitor.send(form, hosts="maps.example, *.far.example")
    assert re.search(r"Granted \S+ \S+ UTC by local\. It holds until a file changes", page.text)
    assert "*.far.example (port 443) granted Take back" in page.text

    file = root / "toolsets/demo/tools/a.py"
    file.write_text(file.read_text() + "# changed\n")
    unseen = visitor.send(form, hosts="maps.example")
    assert (unseen.status, "has changed since you looked" in unseen.text) == (409, True)
    page = visitor.open("/toolsets/demo")
    assert "a file has changed since , so it holds no more" in page.text
    assert "changed since" in page.text
    again = next(one for one in page.forms if "Grant again MAPS_KEY" in str(one.buttons))
    page = visitor.send(again)
    assert "*.far.example (port 443) granted Take back" in page.text
    one = next(one for one in page.forms if one.fields.get("host") == ["*.far.example"])
    page = visitor.send(one)
    assert "Taken back." in page.text
    assert "*.far.example" not in page.text
    assert "maps.example (port 443) asked for granted" in page.text


def test_a_secret_that_python_uses_is_granted_again_and_taken_back_without_a_host(
    visitor: Visitor, root: Path
) -> None:
    look_toolset(root)
    page = visitor.open("/toolsets/look")
    form = next(one for one in page.forms if one.fields.get("name") == ["LOOK_KEY"])
    page = visitor.send(form, "Grant")
    assert "Granted, until a file of it changes." in page.text
    assert "name: LOOK_KEY" in (root / "toolsets/state/look.yaml").read_text()

    look_toolset(root, LOOK.replace("Look", "Looked"))
    page = visitor.open("/toolsets/look")
    page = visitor.send(next(one for one in page.forms if "Grant again" in str(one.buttons)))
    assert re.search(r"Granted \S+ \S+ UTC by local\. It holds until a file changes", page.text)

    form = next(one for one in page.forms if one.fields.get("key") == ["secret-LOOK_KEY"])
    visitor.send(form, "Take back LOOK_KEY")
    assert not (root / "toolsets/state/look.yaml").exists()


def test_an_mcp_server_is_granted_where_its_command_is_read_and_says_what_changed(
    visitor: Visitor, root: Path
) -> None:
    page = take_in(visitor, DEMO)
    form = next(one for one in page.forms if one.fields.get("kind") == ["process"])
    server, command = form.fields["name"][0], "maps-server --stdio 'a b'"
    assert f"Starting the MCP server {server}" in page.text
    assert command in page.text

    page = visitor.send(form, f"Grant {server}")
    assert re.search(r"Granted \S+ \S+ UTC by local\. It holds until this changes", page.text)
    file = root / "toolsets/demo/toolset.yaml"
    file.write_text(file.read_text().replace("--stdio", "--all"))
    page = visitor.open("/toolsets/demo")
    assert f"the command was {command}, and is maps-server --all 'a b'" in page.text

    page = visitor.send(next(one for one in page.forms if "Grant again" in str(one.buttons)))
    assert "It holds until this changes" in page.text
    assert "kind: process" in (root / "toolsets/state/demo.yaml").read_text()


def test_without_a_sandbox_it_runs_only_when_somebody_says_so(visitor: Visitor, root: Path) -> None:
    page = take_in(visitor, DEMO)
    form = next(one for one in page.forms if one.fields.get("kind") == ["unsandboxed"])

    page = visitor.send(form, "Let it run without one")
    assert "kind: unsandboxed" in (root / "toolsets/state/demo.yaml").read_text()
    form = next(one for one in page.forms if one.fields.get("key") == ["unsandboxed"])
    visitor.send(form, "Take back unsandboxed")

    assert "grants" not in (root / "toolsets/state/demo.yaml").read_text()
    assert "Running without a sandbox" not in visitor.open("/toolsets/data-lab").text


def test_what_git_could_bring_back_is_removed_with_the_command_that_does(
    visitor: Visitor, root: Path
) -> None:
    commit(root)
    page = visitor.open("/toolsets/data-lab/uninstall")

    assert "git checkout HEAD -- toolsets/data-lab" in page.text
    assert "Removed" in visitor.send(page.form("/uninstall"), "Uninstall data-lab").text


def test_why_it_cannot_be_exported_is_a_page(visitor: Visitor, root: Path) -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    (root / "toolsets/data-lab/assets/notes.txt").write_text(f"key {token}\n")
    page = visitor.open("/toolsets/data-lab/export")

    assert page.status == 409
    assert "toolsets/data-lab/assets/notes.txt:1:5" in page.text
    assert token not in page.source


def test_whoever_may_not_change_toolsets_sees_no_button_for_it(root: Path) -> None:
    configure(root, 'roles: {dev: {allow: ["**"]}, half: {allow: ["data-lab.summarize"]}}')
    dev, half = Visitor.of(root, "dev"), Visitor.of(root, "half")
    page = dev.open("/toolsets/data-lab")

    assert [one.text.strip() for one in page.links if one.href.endswith("/export")] == ["Export"]
    assert "Uninstall" not in page.text
    assert all("/grants" not in form.action for form in page.forms)
    assert "Import" not in dev.open("/toolsets").text
    for address in ("/imports", "/toolsets/data-lab/uninstall", f"/imports/{UUID(int=0)}"):
        assert dev.open(address).status == 403
    assert "Grants" not in half.open("/toolsets/data-lab").text
    assert half.open("/toolsets/data-lab/export").status == 403
