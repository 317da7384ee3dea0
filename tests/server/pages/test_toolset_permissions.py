"""The permissions on the page of a toolset: what a grant still lacks, and where its menu opens."""

from pathlib import Path

import pytest
from playwright.sync_api import Page

from covalt_git.credentials.values import SecretStore
from covalt_git.system.private_files import user_folder
from covalt_git.trust import Consents
from tests.api_client import Api
from tests.examples import covering
from tests.live_server import Live
from tests.server.visitor import Visitor
from tests.trusting import use_config

TRACKER = """\
id: tracker
name: Tracker
version: "1"
secrets: [TRACKER_KEY, OTHER_KEY]
tools:
  - id: find_issues
    name: Find Issues
    description: Find issues.
    http:
      method: GET
      url: https://issues.with-a-long-name.so-that-it-does-not-fit-into-a-line.of-the-menu.tracker.example/v1
      headers: {Authorization: "Bearer ${TRACKER_KEY}", X-Other: "${OTHER_KEY}"}
    input_schema: {type: object}
"""


@pytest.fixture(autouse=True)
def tracker(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A toolset whose tool needs two secrets, in a project that its user made, with a configuration of its own."""
    use_config(monkeypatch, tmp_path / "config")
    Consents.of(root).trust_new_project()
    folder = root / "toolsets/tracker"
    folder.mkdir()
    (folder / "toolset.yaml").write_text(TRACKER)


def test_a_granted_secret_without_a_value_says_what_to_do(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTHER_KEY", "a-long-value")
    granted = visitor.send(visitor.open("/toolsets/tracker").form("/grants/requested"))
    assert "Granted all requested permissions. Still without a value: TRACKER_KEY." in granted.text

    address, _, anchor = next(
        link.href
        for link in visitor.open("/").links
        if link.text.startswith("Give the value: the secret")
    ).partition("#")
    shown = visitor.open(address)
    assert f'id="{anchor}"' in shown.source
    assert "Calls that need the secret TRACKER_KEY fail: it is not set." in shown.text
    assert "it is not set" not in "".join(
        text for text in shown.source.split("<section") if 'id="secret-OTHER_KEY"' in text
    )
    assert "enabled, but TRACKER_KEY has no value" in shown.text

    monkeypatch.setenv("TRACKER_KEY", "a-long-value")
    assert "is not set" not in visitor.open(address).text
    assert "Give the value: the secret" not in visitor.open("/").text


def test_values_are_given_with_the_grant_that_asks_for_them(visitor: Visitor) -> None:
    page = visitor.open("/toolsets/tracker")
    form = page.form("/grants/requested")
    assert {"value:TRACKER_KEY", "value:OTHER_KEY"} <= form.fields.keys()

    values = {"value:TRACKER_KEY": "a-long-value", "value:OTHER_KEY": "two\nlines"}
    page = visitor.send(form, **values)

    assert "The value of OTHER_KEY was not stored" in page.text
    assert "Stored the value of TRACKER_KEY." in page.text
    assert "Still without a value: OTHER_KEY." in page.text
    assert SecretStore.of_this_machine().value("TRACKER_KEY") == "a-long-value"
    assert "a-long-value" not in page.source
    # The missing value is the first thing of the grants.
    grants = page.source.partition('id="grants"')[2]
    assert grants.index('id="value-OTHER_KEY"') < grants.index("<section")


def test_a_value_is_stored_in_a_file_that_others_could_read_and_closes_it(
    visitor: Visitor,
) -> None:
    file = user_folder() / "secrets.env"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("TRACKER_KEY=a-long-value\n")
    file.chmod(0o644)
    visitor.send(visitor.open("/toolsets/tracker").form("/grants/requested"))
    page = visitor.open("/toolsets/tracker")
    assert "the file gets mode 600" in page.text
    stored = visitor.send(page.form("/secrets"), value="another-value")
    assert "now only you can (mode 600)" in stored.text
    assert file.stat().st_mode & 0o777 == 0o600
    assert SecretStore.of_this_machine().value("TRACKER_KEY") == "a-long-value"
    assert SecretStore.of_this_machine().value("OTHER_KEY") == "another-value"


def test_a_value_is_stored_for_the_user_only_and_no_page_shows_it(
    visitor: Visitor, caplog: pytest.LogCaptureFixture
) -> None:
    form = visitor.open("/toolsets/tracker").forms
    assert not [one for one in form if one.action.endswith("/secrets")]  # it is not granted
    granted = visitor.send(visitor.open("/toolsets/tracker").form("/grants/requested"))
    file = user_folder() / "secrets.env"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("# mine\nOTHER_KEY=one\nTRACKER_KEY=old\n")
    file.chmod(0o600)

    value = " 'a value' with # signs "
    stored = visitor.send(granted.form("#secret-TRACKER_KEY"), value=value)
    assert "Stored the value of TRACKER_KEY." in stored.text
    assert SecretStore({}, file).known() == {"OTHER_KEY": "one", "TRACKER_KEY": value}
    assert file.read_text().startswith("# mine\nOTHER_KEY=one\n")
    assert file.stat().st_mode & 0o777 == 0o600
    pages = [stored, visitor.open("/"), visitor.open("/toolsets")]
    assert not [page for page in pages if "a value" in page.source]
    assert "a value" not in caplog.text

    refused = visitor.send(stored.form("#secret-TRACKER_KEY"), value="two\nlines")
    assert refused.status == 400
    assert "must be one line of text" in refused.text
    assert "two" not in refused.source.partition("secret-TRACKER_KEY")[2]
    undeclared = stored.form("#secret-TRACKER_KEY")
    assert visitor.send(undeclared, name="PATH", value="x").status == 404
    assert SecretStore({}, file).known()["TRACKER_KEY"] == value


def test_a_call_that_lacks_a_value_leads_to_the_field_for_it(
    visitor: Visitor, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTHER_KEY", "a-long-value")
    visitor.send(visitor.open("/toolsets/tracker").form("/grants/requested"))
    call = api.call("tracker:find_issues")
    assert call["error_detail"]["code"] == "secret_missing"

    for address in (
        f"/chats/c1/calls/{call['id']}",
        f"/tools/tracker:find_issues?chat=c1&run={call['id']}",
    ):
        page = visitor.open(address)
        assert "the value of OTHER_KEY" not in page.text
        link, _, anchor = page.link("Give the value of TRACKER_KEY").partition("#")
        assert f'id="{anchor}"' in visitor.open(link).source
    visitor.send(visitor.open(link).form("#secret-TRACKER_KEY"), value="another-value")
    assert "the value of" not in visitor.open(address).text


@pytest.mark.parametrize(
    ("content", "name"), covering([b"\xff not a line\n", b""], ["secrets.env", "trusted-folders"])
)
def test_a_file_of_the_user_that_cannot_be_used_is_one_thing_to_do(
    visitor: Visitor, name: str, content: bytes
) -> None:
    visitor.send(visitor.open("/toolsets/tracker").form("/grants/requested"))
    file = user_folder() / name
    file.write_bytes(content)
    file.chmod(0o600 if content else 0o644)
    home = visitor.open("/")
    why = f"{name}' is not UTF-8" if content else f"chmod 600 {file}"
    # A project of the user needs no folder that is trusted, so there is nothing to do.
    assert (why in home.text) == (name == "secrets.env")
    assert home.source.count('id="need-secret-') == 2 - (name == "secrets.env")
    for address in ("/toolsets", "/toolsets/tracker"):
        assert visitor.open(address).status == 200
    assert name == "trusted-folders" or name in visitor.open("/toolsets/tracker").text


@pytest.mark.rest
@pytest.mark.browser
def test_the_menu_that_grants_all_stays_in_the_window_and_its_message_is_in_view(
    page: Page, served: Live
) -> None:
    page.goto(f"{served.url}/toolsets/tracker")
    menu = page.locator("details.menu", has_text="Grant all")
    for width in (1280, 800, 360):
        page.set_viewport_size({"width": width, "height": 700})
        menu.locator("summary").click()
        box = menu.locator(".menu-body").bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        # The focus leaves the menu, so the menu closes.
        menu.get_by_role("button", name="Grant all").focus()
        page.keyboard.press("Tab")
        assert menu.get_attribute("open") is None

    menu.locator("summary").click()
    menu.get_by_role("button", name="Grant all").click()
    message = page.get_by_role("status")
    message.wait_for()
    box = message.bounding_box()
    assert box is not None
    assert page.evaluate("scrollY") > 0
    assert 0 <= box["y"] < 700 - box["height"]


def test_a_toolset_whose_servers_were_never_listed_says_what_to_do_next(
    visitor: Visitor, root: Path
) -> None:
    (root / "toolsets/gear").mkdir()
    (root / "toolsets/gear/toolset.yaml").write_text(
        'id: gear\nname: Gear\nversion: "1"\n'
        "mcp_servers: [{id: disk, command: python3, args: [server.py]}]\n"
    )
    page = visitor.send(visitor.open("/toolsets/gear").form("/grants/requested"))
    step = "Next: ask its servers for their tools."
    assert f"Granted all requested permissions. {step}" in page.text
    assert page.link("Show them") == "/toolsets/gear#source-disk"
    visitor.send(page.form("/enabled"))
    page = visitor.open("/toolsets/gear")
    assert f"Enabled. {step}" in visitor.send(page.form("/enabled")).text

    page = visitor.send(visitor.open("/toolsets/gear").form("/refresh"))
    for address in ("/toolsets/gear", "/toolsets", "/"):
        text = visitor.open(address).text
        assert "disk did not list its tools" in text, address
        assert "ask its servers for their tools" not in text, address


def test_a_toolset_whose_namespace_another_one_got_says_so_in_place_of_asking_its_servers(
    visitor: Visitor, root: Path
) -> None:
    manifest = 'id: {}\nname: Gear\nversion: "1"\n'
    servers = "mcp_servers:\n  - {id: disk, command: python3, args: [server.py]}\n"
    for name, more in (("gear", servers), ("disk", "")):
        (root / "toolsets" / name).mkdir()
        (root / "toolsets" / name / "toolset.yaml").write_text(manifest.format(name) + more)
    visitor.send(visitor.open("/toolsets/gear").form("/grants/requested"))

    page = visitor.open("/toolsets/gear")

    assert "the toolset disk has the namespace disk . Give its server another name." in page.text
    assert "Ask its servers" not in page.text
    assert page.link("Edit the names") == "/toolsets/gear/edit/toolset.yaml?line=5&col=10"


def test_a_host_with_spaces_is_refused_with_all_that_was_typed(visitor: Visitor) -> None:
    page = visitor.open("/toolsets/tracker")
    form = next(form for form in page.forms if form.action.endswith("/grants"))
    refused = visitor.send(form, hosts="not a host!!")
    assert refused.status == 400
    assert "separate the 3 hosts in 'not a host!!'" in refused.text
