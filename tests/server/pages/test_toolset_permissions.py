"""The permissions on the page of a toolset: what a grant still lacks, and where its menu opens."""

from pathlib import Path

import pytest
from playwright.sync_api import Page

from covalt_git.system.private_files import user_folder
from tests.live_server import Live
from tests.server.visitor import Visitor

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
def tracker(root: Path) -> None:
    """A toolset whose tool needs two secrets."""
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
        link.href for link in visitor.open("/").links if link.text.startswith("Show: the secret")
    ).partition("#")
    shown = visitor.open(address)
    (part,) = [text for text in shown.source.split("<section") if f'id="{anchor}"' in text]
    file = user_folder() / "secrets.env"
    assert "The secret TRACKER_KEY is not set" in part
    assert f"<code>export TRACKER_KEY=..., or add it to {file} as TRACKER_KEY=...</code>" in part
    assert "OTHER_KEY is not set" not in shown.source

    monkeypatch.setenv("TRACKER_KEY", "a-long-value")
    assert "is not set" not in visitor.open(address).text
    assert "Show: the secret" not in visitor.open("/").text


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
