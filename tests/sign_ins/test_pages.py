"""The page of a toolset: a user signs in and out there, in a browser on this machine or on another."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from covalt_git.operations.credentials import running_sign_ins
from tests.api_client import Api
from tests.browser import console_errors
from tests.calls.conftest import World
from tests.connections.signing_in import redirect_of, visit
from tests.live_server import live
from tests.server.visitor import Visitor
from tests.settling import until
from tests.sign_ins.accounts import stored


@pytest.fixture
def page(shop: World, chromium: Browser) -> Iterator[Page]:
    """The page of the toolset; what its console calls an error, except a refused form, fails the test."""
    with live(shop.root) as served:
        context = chromium.new_context()
        page = context.new_page()
        errors = console_errors(page)
        page.goto(served.door)
        page.goto(f"{served.url}/toolsets/shop")
        yield page
        context.close()
        assert [error for error in errors if "(UNPROCESSABLE" not in error] == []


@pytest.mark.rest  # without JavaScript, the page is the same once it is opened again
@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 375])
def test_a_user_signs_in_and_out(shop: World, page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    sign_in = page.locator("#sign-in-shop")
    assert "not signed in" in sign_in.inner_text()

    sign_in.get_by_role("button", name="Sign in").click()
    with page.context.expect_page() as opened:
        sign_in.get_by_role("link", name="Sign in at 127.0.0.1").click()
    opened.value.get_by_text("You can close this page").wait_for()
    sign_in.get_by_role("button", name="Sign out").wait_for()

    assert stored(shop.root).scope == "read"
    assert "renewed automatically" in sign_in.inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    sign_in.get_by_role("button", name="Sign out").click()
    page.get_by_text("Signed out.").wait_for()
    assert "not signed in" in sign_in.inner_text()


@pytest.mark.rest
@pytest.mark.browser
def test_a_user_whose_browser_is_on_another_machine_pastes_the_address(
    shop: World, page: Page
) -> None:
    sign_in = page.locator("#sign-in-shop")
    sign_in.get_by_role("button", name="Sign in").click()
    address = sign_in.get_by_role("link", name="Sign in at 127.0.0.1").get_attribute("href") or ""

    sign_in.get_by_label("Paste its address").fill("http://127.0.0.1/another")
    sign_in.get_by_role("button", name="Complete").click()
    page.get_by_text("This is not the address that the sign-in ends at").wait_for()
    sign_in.get_by_label("Paste its address").fill(redirect_of(address))
    sign_in.get_by_role("button", name="Complete").click()
    sign_in.get_by_role("button", name="Sign out").wait_for()

    assert stored(shop.root).scope == "read"


class WithoutScript:
    """A user of the page of the toolset whose browser runs no JavaScript."""

    def __init__(self, shop: World) -> None:
        self._visitor = Visitor(Api.of(shop.root).app)
        self.page = self._visitor.open("/toolsets/shop")

    def presses(self, button: str, **typed: str) -> None:
        form = self.page.form("/sign-ins/shop")
        self.page = self._visitor.send(form, button, **typed)

    def begins(self) -> str:
        """Press the button to sign in; return where its link leads."""
        self.presses("Sign in to shop")
        links = self.page.links
        return next(link.href for link in links if link.text.startswith("Sign in at 127.0.0.1"))

    def sees(self, words: str) -> None:
        """Open the page until it shows some words."""
        until(lambda: words in self._visitor.open("/toolsets/shop").text)
        self.page = self._visitor.open("/toolsets/shop")


def test_a_user_without_javascript_signs_in_and_out(shop: World) -> None:
    user = WithoutScript(shop)
    assert "not signed in" in user.page.text

    assert "You can close this page" in visit(user.begins())
    user.sees("renewed automatically")

    assert stored(shop.root).scope == "read"
    user.presses("Sign out of shop")
    assert "Signed out." in user.page.text
    assert "not signed in" in user.page.text


def test_a_user_without_javascript_pastes_the_address_that_it_ended_at(
    shop: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = WithoutScript(shop)
    address = user.begins()

    with monkeypatch.context() as patch:
        patch.setattr(running_sign_ins, "EXCHANGE_S", 0.2)
        user.presses("Complete", address="http://127.0.0.1/another")
    assert "This is not the address that the sign-in ends at" in user.page.text
    user.sees("waiting for you")
    user.presses("Complete", address=redirect_of(address))
    user.sees("renewed automatically")

    assert stored(shop.root).scope == "read"
