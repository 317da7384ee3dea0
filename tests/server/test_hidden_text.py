"""Hidden characters where a reviewer decides: escaped on pages and in commands, unchanged in JSON."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from html import unescape
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from covalt_git.text import display
from covalt_server.pages import layout
from tests.api_client import Api
from tests.live_server import Live
from tests.server.visitor import Visitor

Covalt = Callable[..., str]

HIDDEN = {"control", "line-break", "bidi", "invisible", "blank"}
WITHOUT_GLYPH = "\u0378\ue000\ufdd0\uffff\U000f0000\U0010fffd"
RANGES = [
    now
    for before, now in pairwise(map(chr, chain(range(0x20000), range(0xE0000, 0xE2000))))
    if display.kind(now) in HIDDEN and display.kind(now) != display.kind(before)
]
TEXT = "".join([*RANGES, *WITHOUT_GLYPH, *(chr(0xE0000 + ord(one)) for one in "; rm")])
PERSIAN = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"


@pytest.fixture
def waiting(api: Api) -> Any:
    """A pending call with one character of each range in its arguments."""
    return api.call("app-builder:run_command", command=f"ls {TEXT}", cwd=".")


@pytest.fixture
def covalt(cli: Callable[..., tuple[int, str]]) -> Covalt:
    """Run a command; return what it prints."""
    return lambda *args: cli(*args)[1]


def page(visitor: Visitor, address: str) -> str:
    shown = visitor.open(address)
    assert shown.status == 200
    return unescape(shown.source)


def raw(shown: str) -> set[str]:
    """Return the hidden characters of a text that are not the line feeds between its own lines."""
    return {one for one in shown if one in TEXT and one != "\n"}


def faces(covalt: Covalt, visitor: Visitor, call: Any) -> list[str]:
    """Return what each face prints of a pending call."""
    execution_id = call["execution_id"]
    return [
        covalt("approval", "list"),
        covalt("approval", "show", execution_id),
        page(visitor, "/approvals"),
        page(visitor, f"/approvals/{execution_id}"),
        page(visitor, f"/chats/c1/calls/{call['id']}"),
        covalt("approval", "deny", execution_id, "--no-terminal", "tested")
        and covalt("chat", "show", "c1"),
    ]


def test_arguments_hide_no_character_of_any_range(
    covalt: Covalt, visitor: Visitor, waiting: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for shown in faces(covalt, visitor, waiting):
        assert raw(shown) == set()
        # JSON escapes ASCII's controls itself.
        assert [one for one in TEXT if one >= "\x7f" and display.escape(one) not in shown] == []

    monkeypatch.setattr(display, "_escaped", lambda text, *_: text)
    assert raw(page(visitor, f"/chats/c1/calls/{waiting['id']}"))  # what the check would find


def test_json_and_the_api_keep_arguments_as_they_are(
    covalt: Covalt, api: Api, waiting: Any
) -> None:
    told = json.loads(covalt("approval", "show", waiting["execution_id"], "--json"))
    listed = json.loads(covalt("approval", "list", "--json"))["approvals"]
    answer = api.get("get_approval", execution_id=waiting["execution_id"])

    assert {one["args"]["command"] for one in (told, *listed, answer)} == {f"ls {TEXT}"}


def test_names_of_files_are_escaped_on_pages_and_come_back_as_they_are(
    covalt: Covalt, visitor: Visitor, api: Api
) -> None:
    name = "a\u3000b\u2764\ufe0f.txt"
    (api.workspace / name).write_text("x", encoding="utf-8")

    listed = page(visitor, "/chats/c1/files")
    status = covalt("chat", "status", "c1")
    edited = visitor.open("/chats/c1/files/" + name + "?view=edit")
    (form,) = [one for one in edited.forms if "content" in one.fields]
    visitor.send(form, "Save", content="y\u2060\u202e")
    again = visitor.open("/chats/c1/files/" + name + "?view=edit")
    (form_again,) = [one for one in again.forms if "content" in one.fields]

    for shown in (listed, status, edited.text):
        assert "a\\u{3000}b\u2764\\u{fe0f}.txt" in shown
    assert raw(status) == set()
    assert (api.workspace / name).read_text(encoding="utf-8").strip() == "y\u2060\u202e"
    assert form_again.fields["content"][0].strip() == "y\u2060\u202e"


@pytest.mark.usefixtures("api")
def test_a_message_keeps_its_joiners(covalt: Covalt, visitor: Visitor) -> None:
    covalt("chat", "message", "add", "c1", f"{PERSIAN} \u2764\ufe0f a\U000e0041")
    (message,) = json.loads(covalt("chat", "message", "list", "c1", "--json"))["messages"]

    for shown in (
        covalt("chat", "message", "show", "c1", message["id"]),
        page(visitor, f"/chats/c1/states/{message['manifest_id']}"),
    ):
        assert f"{PERSIAN} \u2764\ufe0f a\\u{{e0041}}" in shown


def test_logs_hide_nothing(root: Path) -> None:
    program = (
        "import logging, pathlib, sys\n"
        "from covalt_server.app import create_app\n"
        "create_app(pathlib.Path(sys.argv[1]), token='t' * 40, port=1).logger.error(sys.argv[2])\n"
        "logging.getLogger('covalt_git').warning(sys.argv[2])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, root, "a\U000e0041\u2060"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stderr.count("a\\u{e0041}\\u{2060}\n") == 2
    assert raw(done.stderr) == set()


def test_values_that_come_back_from_a_page_are_not_escaped() -> None:
    """A field's name or value with an escape in it would be another one when it is sent."""
    attribute = re.compile(r'\s(?:value|name|data-[a-z-]+)="([^"<>]*)"|([^"<>]*)</textarea>')
    constant = re.compile(r"loop\.\w+|url_for\(.*|'[a-z]+' if .* else '[a-z]+'")
    templates = [*(Path(layout.__file__).parents[1] / "templates").glob("*.html")]
    changed = [
        f"{file.name}: {printed}"
        for file in templates
        for found in attribute.finditer(file.read_text(encoding="utf-8"))
        for printed in re.findall(r"\{\{ (.*?) \}\}", found[1] or found[2] or "")
        if not printed.endswith(" | e") and not constant.fullmatch(printed)
    ]

    assert templates
    assert changed == []


@pytest.mark.parametrize(
    ("filler", "width"), [("x", 390), pytest.param("ls ", 1280, marks=pytest.mark.rest)]
)
def test_no_part_of_an_argument_scrolls_out_of_view(
    api: Api, page: Page, served: Live, filler: str, width: int
) -> None:
    call = api.call("app-builder:run_command", command=filler * 500 + "; rm -rf ~", cwd=".")
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{served.url}/approvals/{call['execution_id']}")

    end = page.get_by_text("; rm -rf ~")
    assert (
        end.evaluate("one => one.closest('pre').scrollWidth - one.closest('pre').clientWidth") == 0
    )
    boxes = [end.bounding_box(), page.locator("pre.code").first.bounding_box()]
    text, pre = [box for box in boxes if box]
    assert pre["x"] <= text["x"]
    assert text["x"] + text["width"] <= pre["x"] + pre["width"]
