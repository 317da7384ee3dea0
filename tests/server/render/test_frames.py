"""Frames of a tool's own server: where they may lead, and that our token never goes there."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser

from covalt_server.render.artifacts import FRAME_SANDBOX, FrameAddress, Refused, frame_address
from tests.api_client import TOKEN, Api, configure
from tests.live_server import live
from tests.server.outside import Outside

OWN_PORT = 8787
SHOWN = b"""<!doctype html><title>tool</title><p id="told"></p><script>
fetch("/again").then(() => { told.textContent = `shown by ${origin}` });
</script>"""


def lead(url: object, *, page_host: str = "127.0.0.1:8787", granted: str = "") -> FrameAddress:
    found = frame_address(
        {"url": url}, own_port=OWN_PORT, page_host=page_host, granted=granted.split()
    )
    assert isinstance(found, FrameAddress), found
    return found


def refuse(url: object, *, page_host: str = "127.0.0.1:8787", granted: str = "") -> str:
    found = frame_address(
        {"url": url}, own_port=OWN_PORT, page_host=page_host, granted=granted.split()
    )
    assert isinstance(found, Refused), found
    return found.reason


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "LOCALHOST"])
@pytest.mark.parametrize(
    ("page_host", "name"),
    [
        ("127.0.0.1:8787", "localhost"),
        ("127.0.0.1", "localhost"),
        ("localhost:8787", "127.0.0.1"),
        ("LocalHost", "127.0.0.1"),
        ("[::1]:8787", "localhost"),
        ("::1", "localhost"),
        ("box.example:443", "localhost"),
    ],
)
def test_a_frame_on_this_machine_bears_another_name_than_our_page(
    host: str, page_host: str, name: str
) -> None:
    found = lead(f"http://{host}:3000/app?a=1#b", page_host=page_host)

    assert found.url == f"http://{name}:3000/app?a=1#b"
    assert found.origin == f"http://{name}:3000"
    assert urlsplit(found.url).hostname != urlsplit(f"//{page_host}").hostname


def test_an_address_without_a_path_leads_to_its_root() -> None:
    assert lead("https://127.0.0.1:65535").url == "https://localhost:65535/"
    assert lead("http://localhost:1024?a").url == "http://localhost:1024/?a"


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost/",
        "http://localhost:80/",
        "http://localhost:1023/",
        "http://localhost:65536/",
        "https://127.0.0.1/",
    ],
)
def test_a_frame_on_this_machine_needs_a_port_of_everybody(url: str) -> None:
    assert refuse(url) == "a frame on this machine needs a port from 1024 to 65535"


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_no_frame_shows_our_own_server(host: str) -> None:
    assert refuse(f"http://{host}:8787/chats") == "port 8787 is covalt-git's own"


@pytest.mark.parametrize(
    "url",
    [
        None,
        3000,
        "",
        "localhost:3000",
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "//localhost:3000",
        "http://user@localhost:3000/",
        "http://localhost:3000\\@evil.example/",
        "http://localhost\t:3000/",
    ],
)
def test_what_is_no_address_is_refused(url: object) -> None:
    assert "not an http or https address" in refuse(url)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.",
        "localhost.evil.example",
        "127.0.0.2",
        "127.1",
        "2130706433",
        "0.0.0.0",
        "[::ffff:127.0.0.1]",
        "[0:0:0:0:0:0:0:1]",
        "sub.granted.example",
    ],
)
def test_any_other_host_has_to_be_granted(host: str) -> None:
    told = refuse(f"https://{host}:3000/", granted="granted.example granted.example:3000")

    assert told == f"'{host}:3000' was not granted to the toolset"


def test_a_granted_host_is_reached_by_https() -> None:
    assert lead("https://Maps.example/a", granted="maps.example").url == "https://maps.example/a"
    assert (
        lead("https://maps.example:443/", granted="MAPS.example").origin == "https://maps.example"
    )
    assert lead("https://maps.example:8443/", granted="maps.example:8443").origin == (
        "https://maps.example:8443"
    )
    assert "https" in refuse("http://maps.example/", granted="maps.example")
    assert "not granted" in refuse("https://maps.example:8443/", granted="maps.example")


def test_a_granted_host_that_is_our_own_is_refused() -> None:
    """A cookie of ours would go to it: cookies ignore ports."""
    told = refuse("https://box.example:9000/", page_host="box.example", granted="box.example:9000")

    assert "another host" in told


def test_the_frame_never_opens_windows_or_leads_our_page_away() -> None:
    allowed = set(FRAME_SANDBOX.split())

    assert allowed == {"allow-scripts", "allow-same-origin", "allow-forms"}


# --- in the browser -------------------------------------------------------------------------------


def put_preview(root: Path, port: int, name: str) -> str:
    """Give a project a tool whose result is a frame; return the id of a call of it."""
    toolset = root / "toolsets" / "preview"
    (toolset / "tools").mkdir(parents=True)
    (toolset / "tools" / "app.py").write_text(
        f"def start() -> object:\n    return {{'url': 'http://{name}:{port}/app'}}\n"
    )
    (toolset / "toolset.yaml").write_text(
        dedent("""\
            id: preview
            name: Preview
            version: "1"
            tools: [{id: start, entrypoint: "tools.app:start"}]
            tool_overrides:
              - {tool_id: start, renderer: frame, renderer_config: {url: "$return.url"}}
            """)
    )
    configure(root)
    return str(Api.of(root).call("preview:start")["id"])


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_our_token_never_reaches_the_server_of_a_tool(
    api: Api, chromium: Browser, name: str
) -> None:
    with Outside() as tool, live(api.root) as own:
        tool.pages["/app"] = ({"Content-Type": "text/html"}, SHOWN)
        call_id = put_preview(api.root, tool.port, name)
        with chromium.new_context() as context:
            page = context.new_page()
            page.goto(f"{own.at(name)}/?token={TOKEN}")
            page.goto(f"{own.at(name)}/chats/c1/calls/{call_id}")
            told = page.frame_locator("iframe.artifact").locator("#told:not(:empty)").inner_text()
            assert [one["name"] for one in context.cookies()] == [f"covalt_git_{own.port}"]
            seen = list(tool.requests)

            # What the name is for: by that of our page, the browser sends it.
            tool.pages["/around"] = ({"Content-Type": "text/html"}, b"<iframe src=/same></iframe>")
            page.goto(f"http://{name}:{tool.port}/around")

    other = "localhost" if name == "127.0.0.1" else "127.0.0.1"
    assert told == f"shown by http://{other}:{tool.port}"
    assert {one.path for one in seen} >= {"/app", "/again"}
    assert [one.headers.get("Cookie") for one in seen] == [None] * len(seen)
    assert {one.path for one in tool.requests if TOKEN in one.headers.get("Cookie", "")} >= {
        "/around",
        "/same",
    }
