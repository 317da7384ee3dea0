"""Pages on which toolsets are imported, updated, granted and uninstalled, without JavaScript."""

import json
import re
from pathlib import Path
from uuid import UUID

import pytest

from covalt_git.credentials.values import SecretStore
from covalt_git.toolsets.toolset import read_toolset
from covalt_git.trust import Consents
from tests.api_client import BEARER, HOME, TOKEN, Api, configure, form_file
from tests.installs.hostile_bundles import GOOD, TOOL, File, archive
from tests.server.outside import Outside
from tests.server.sample_bundle import DEMO, MANIFEST
from tests.server.visitor import Form, Page, Visitor
from tests.ssh_keys import Key, make_key

HOSTILE = MANIFEST.replace(
    b"name: Demo", b'name: "<img src=x onerror=alert(1)> {{ 7 * 7 }} {% raw %}"'
).replace(b"maps-server", b"'<script>alert(1)</script>'")


def review_bundle(visitor: Visitor, content: bytes, name: str = "demo.zip") -> Page:
    """Choose a file on the page of imports, and open its review."""
    form = visitor.open(visitor.open("/toolsets").link("Import")).forms[1]
    return visitor.send(form, "Review", file=form_file(name, content))


def staged_folders(root: Path) -> list[Path]:
    return list((root / "data").glob(".incoming-*"))


def import_bundle(visitor: Visitor, content: bytes) -> Page:
    return visitor.send(review_bundle(visitor, content).forms[1], "Import")


def form_of(page: Page, **fields: str) -> Form:
    """Return the form whose hidden fields have these values."""
    return next(
        form
        for form in page.forms
        if all(form.fields.get(name) == [value] for name, value in fields.items())
    )


@pytest.mark.requirement(
    "covalt-0.bundles", "covalt-8.1.import", "covalt-8.1.export", "covalt-8.1.uninstall"
)
def test_a_toolset_is_imported_granted_called_exported_and_uninstalled(
    visitor: Visitor, api: Api
) -> None:
    with Outside() as outside:
        outside.pages["/here"] = ({"Content-Type": "text/plain"}, b"found it")
        host = f"127.0.0.1:{outside.port}"
        manifest = (
            'id: far\nname: Far\nversion: "2"\ntools:\n'
            f'  - {{id: look, http: {{url: "http://{host}/here"}}, input_schema: {{type: object}}}}\n'
        )
        review = review_bundle(visitor, archive((File(b"toolset.yaml", manifest.encode()),)))
        # The button at the end of the page uses the only box, which is at the first button.
        (form,) = [form for form in review.forms if "permission" in form.fields]
        assert form.buttons == [("", "", "Import")] * 2
        assert [one.get("name") for one in review.named("input")].count("trust") == 1
        assert host in review.text
        assert not (api.root / "toolsets/far").exists()
        here = visitor.send(review.forms[1], "Import")
        on = visitor.send(here.form("/enabled"), "Enable far")
        visitor.send(on.form("/grants"), f"Grant network {host}")
        assert outside.requests == []
        form = visitor.open("/tools/far:look?chat=c1").form("look")
        assert "found it" in visitor.send(form, "Run").text
        link = visitor.open("/toolsets/far").link("Export")
        sent = api.client().get(link, base_url=HOME, headers=BEARER)
        assert sent.get_data() == api.ask("export_toolset", toolset_id="far").get_data()

    asked = visitor.open(visitor.open("/toolsets/far").link("Uninstall..."))
    refused = visitor.send(asked.form("/uninstall"), "Uninstall far")
    assert refused.status == 409
    visitor.send(refused.form("/uninstall"), "Uninstall far", force="on")
    assert not (api.root / "toolsets/far").exists()
    (call,) = api.get("list_calls", chat_id="c1")["calls"]
    assert "found it" in visitor.open(f"/chats/c1/calls/{call['id']}").text


def test_a_bundle_is_described_before_its_import(visitor: Visitor, root: Path) -> None:
    page = review_bundle(
        visitor, archive((File(b"toolset.yaml", HOSTILE), GOOD[1])), "its & name.zip"
    )

    assert page.status == 200
    assert page.title.startswith("Import demo")
    assert "<img src=x onerror=alert(1)> {{ 7 * 7 }} {% raw %}" in page.text
    assert len(page.named("img")) == 1  # the brand's
    assert "<script>alert(1)</script> --stdio a b" in page.text
    assert "Receives the variables KEY." in page.text
    assert "requests the secret MAPS_KEY , to send it to maps.example" in page.text
    assert "third-party packages: tinypkg" in page.text
    assert "1 of its 2 tools needs approval" in page.text
    assert "its & name.zip" in page.text
    assert re.search("sha256:[0-9a-f]{64}", page.text)
    assert not (root / "toolsets/demo").exists()


def test_a_refused_bundle_is_explained_and_leaves_nothing(visitor: Visitor, root: Path) -> None:
    before = sorted(root.joinpath("toolsets").rglob("*"))
    page = review_bundle(visitor, archive((*GOOD, File(b"tools/../../evil"), File(b"/<b>evil"))))

    assert page.status == 422
    assert "demo.zip/tools/../../evil CG305" in page.text
    assert "demo.zip//<b>evil" in page.text
    assert review_bundle(visitor, b"", "").status == 400
    form = visitor.open("/imports").forms[2]
    away = visitor.send(form, url="http://far.example/demo.zip")
    assert away.status == 502
    assert away.forms[2].fields["url"] == ["http://far.example/demo.zip"]
    visitor.send(review_bundle(visitor, DEMO).form("/drop"))
    assert sorted(root.joinpath("toolsets").rglob("*")) == before
    assert staged_folders(root) == []


def newer(version: str, **changed: bytes) -> bytes:
    files = {
        "toolset.yaml": MANIFEST.replace(b'"1.2"', f'"{version}"'.encode()),
        "tools/a.py": TOOL,
    }
    return archive(
        tuple(File(name.encode(), content) for name, content in (files | changed).items())
    )


@pytest.mark.rest
def test_an_update_keeps_or_gives_up_what_was_changed_here(visitor: Visitor, root: Path) -> None:
    import_bundle(visitor, DEMO)
    tool = root / "toolsets/demo/tools/a.py"
    tool.write_bytes(TOOL + b"# ours\n")

    page = review_bundle(visitor, newer("1.3", **{"new.md": b"new"}))
    assert "added new.md" in page.text
    here = visitor.send(page.forms[1], "Update")
    assert "# ours" in visitor.open(here.link("changed since")).changed_lines("add")
    assert (root / "toolsets/demo/new.md").exists()

    page = review_bundle(visitor, newer("1.4"))
    visitor.send(page.forms[1], "Update and discard local changes")
    assert tool.read_bytes() == TOOL


def test_an_update_is_fetched_only_on_request(visitor: Visitor, root: Path) -> None:
    with Outside() as outside:
        outside.pages["/demo.zip"] = ({}, DEMO)
        form = visitor.open("/imports").forms[2]
        review = visitor.send(form, url=f"http://127.0.0.1:{outside.port}/demo.zip")
        here = visitor.send(review.forms[1], "Import")
        outside.requests.clear()
        outside.pages["/demo.zip"] = ({}, newer("2"))
        visitor.open("/toolsets/demo")
        assert outside.requests == []

        review = visitor.send(here.form("/newer"), "Check for an update")
        visitor.send(review.forms[1], "Update")
    assert 'version: "2"' in (root / "toolsets/demo/toolset.yaml").read_text()


def test_an_unknown_signer_is_trusted_by_name_and_another_one_accepted(
    visitor: Visitor, root: Path, tmp_path: Path
) -> None:
    ann, bob = make_key(tmp_path, "ann"), make_key(tmp_path, "bob")
    configure(root, f"signers:\n  - {bob.allowed('bob')}\n")
    form = visitor.open("/imports").forms[1]

    def signed_by(key: Key, content: bytes) -> Page:
        signature = form_file("demo.zip.sig", key.sign(content))
        return visitor.send(form, file=form_file("demo.zip", content), signature=signature)

    page = signed_by(ann, DEMO)
    assert (
        visitor.send(page.forms[1], "Trust the key and import", signer="not a name").status == 400
    )
    here = visitor.send(page.forms[1], "Trust the key and import", signer="ann")
    assert ann.allowed("ann") in (root / "covalt.yaml").read_text()
    assert f"ann {ann.fingerprint[:19]}" in here.text

    page = signed_by(bob, newer("2"))
    refused = visitor.send(page.forms[1], "Update")
    assert refused.status == 409
    assert b'"1.2"' in (root / "toolsets/demo/toolset.yaml").read_bytes()
    visitor.send(page.forms[1], "Update", accept_signer="on")
    assert b'"2"' in (root / "toolsets/demo/toolset.yaml").read_bytes()


def test_grants_are_added_renewed_and_revoked_on_the_page(visitor: Visitor, root: Path) -> None:
    state = root / "toolsets/state/demo.yaml"
    form = form_of(import_bundle(visitor, DEMO), name="MAPS_KEY", typed="yes")
    wrong = visitor.send(form, hosts="a/b")
    field = next(one for one in wrong.named("input") if one.get("aria-invalid"))
    assert (wrong.status, field["value"], field["name"]) == (400, "a/b", "hosts")

    visitor.send(form, hosts="maps.example, *.far.example")
    file = root / "toolsets/demo/tools/a.py"
    file.write_text(file.read_text() + "# changed\n")
    assert visitor.send(form, hosts="maps.example").status == 409
    page = visitor.open("/toolsets/demo")
    again = next(one for one in page.forms if "Grant again MAPS_KEY" in str(one.buttons))
    page = visitor.send(again)
    assert "*.far.example" in state.read_text()
    visitor.send(form_of(page, host="*.far.example"))
    assert "*.far.example" not in state.read_text()
    assert "maps.example" in state.read_text()


def test_only_an_administrator_can_change_toolsets(root: Path) -> None:
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


def test_a_document_in_another_format_is_converted_reviewed_and_imported(
    visitor: Visitor, root: Path
) -> None:
    token = "Zq8vN3kT7wLp2RxB5mYcZr4hJ6sD1g"
    document = (
        '{"name": "<i>Desk</i>", "version": "1", "manifest_version": "0.3", "author": {"name": "<b>x</b>"},'
        f' "server": {{"mcp_config": {{"command": "npx", "env": {{"API_TOKEN": "{token}"}}}}}}}}'
    )
    page = review_bundle(visitor, document.encode(), "manifest.json")

    assert "A credential became a reference to the secret API_TOKEN" in page.text
    assert token not in page.text
    assert "<b>x" not in page.source
    here = visitor.send(page.forms[1], "Import")
    assert "disabled" in here.text
    manifest = (root / "toolsets/i-desk-i/toolset.yaml").read_text()
    assert "${API_TOKEN}" in manifest


def test_a_document_of_an_unknown_format_leads_to_the_field_for_its_format(
    visitor: Visitor,
) -> None:
    page = review_bundle(visitor, b'{"a": 1}', "a.json")

    assert "Choose its format below" in page.text
    assert "--from" not in page.text
    assert page.link("its format") == "#format"


def test_the_value_of_a_credential_that_is_not_imported_is_asked_for_with_the_grant_of_its_server(
    visitor: Visitor, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    Consents.of(root).trust_new_project()
    servers = {
        name: {
            "url": f"https://{name}.example/mcp",
            "headers": {"Authorization": f"Bearer Zq8vN3kT7wLp2RxB5mYcZr4hJ6sD1g{name}"},
        }
        for name in ("web", "app")
    }
    document = json.dumps({"mcpServers": servers}).encode()
    page = review_bundle(visitor, document, "mcp.json")
    assert (
        "the secret WEB_TOKEN: its value is not imported, so give it with the grants" in page.text
    )

    visitor.send(page.forms[1], "Import")
    form = visitor.open("/toolsets/mcp").form("/grants/requested")
    page = visitor.send(form, **{"value:APP_TOKEN": "a-long-value"})
    assert "Still without a value: WEB_TOKEN." in page.text
    # Also later, in the field and by the command that the hints name.
    page = visitor.send(page.form("#secret-WEB_TOKEN"), value="another-value")
    assert "Stored the value of WEB_TOKEN." in page.text
    assert SecretStore.of_this_machine().value("APP_TOKEN") == "a-long-value"


def test_the_page_of_a_toolset_lists_its_skills(visitor: Visitor, root: Path) -> None:
    skill = root / "toolsets/data-lab/skills/clean-up/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: clean-up\ndescription: Remove empty rows.\n---\n")
    page = visitor.open("/toolsets/data-lab")

    assert "Remove empty rows." in page.text
    (link,) = (one for one in page.links if one.text == "clean-up")
    assert "Remove empty rows." in visitor.open(link.href).text


def test_the_message_of_an_import_has_the_button_that_enables_the_toolset(
    visitor: Visitor, root: Path
) -> None:
    manifest = b'id: plain\nname: Plain\nversion: "1"\n'
    page = visitor.send(
        review_bundle(visitor, archive((File(b"toolset.yaml", manifest),))).forms[1], "Import"
    )
    assert "Next: enable the toolset." in page.text
    (form,) = [form for form in page.forms if ("", "", "Enable it") in form.buttons]
    visitor.send(form, "Enable it")
    assert read_toolset(root, "plain").enabled


def test_a_page_of_an_import_that_is_over_says_what_became_of_it(visitor: Visitor) -> None:
    browser = visitor.app.test_client()  # which keeps its cookie
    browser.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {TOKEN}"

    def sent(address: str, **fields: object) -> Page:
        return Page.of(browser.post(address, base_url=HOME, data=fields))

    def opened(address: str) -> Page:
        return Page.of(browser.get(address, base_url=HOME))

    first, second = (review_bundle(visitor, DEMO, name).address for name in ("a.zip", "b.zip"))
    sent(first)
    for page in (opened(first), sent(first), sent(f"{first}/drop")):
        assert (page.status, "a.zip was imported" in page.text) == (404, True)
        assert page.link("The toolset demo") == "/toolsets/demo"
    sent(f"{second}/drop")
    assert "b.zip was not imported" in opened(second).text
    # Another browser, or this one after the server was started again.
    elsewhere = visitor.open(first)
    assert "This import is over" in elsewhere.text
    assert elsewhere.link("All toolsets") == "/toolsets"
