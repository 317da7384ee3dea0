"""All sample toolsets: they have no problems, are read as they load, and their pages show data as text."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from covalt_git.render.inject_data import inject
from covalt_git.toolsets.toolset import read_toolset
from covalt_toolset import invoke
from tests.browser import DRAWN, violations
from tests.sample_toolsets.conftest import TOOLSETS

PAGES = {
    "chart": TOOLSETS / "data-lab/artifacts/chart.html",
    "lines": TOOLSETS / "text-kit/artifacts/lines.html",
}


@pytest.mark.parametrize("toolset_id", ["app-builder", "data-lab", "text-kit", "web-fetch"])
def test_sample_has_no_problems_and_its_tools_have_examples(toolset_id: str) -> None:
    toolset = read_toolset(TOOLSETS.parent, toolset_id)

    assert toolset.problems == ()
    if toolset_id in ("text-kit", "web-fetch"):
        assert all(tool.examples for tool in toolset.tools)


# Pages


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_page_loads_nothing_and_writes_text_only(page: Path) -> None:
    text = page.read_text(encoding="utf-8")

    addresses = {*re.findall(r"\w+://[^\"'\s)]*", text)}
    assert addresses <= {"http://www.w3.org/2000/svg"}  # the name of SVG, which is not loaded
    assert not re.search(r"<link|<img|<iframe|@import|url\(|\bimport\(|fetch\(|XMLHttp", text)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", text)
    assert text.count("</head>") == 1


@pytest.fixture
def opened(chromium: Browser, workspace: Path) -> Callable[..., Any]:
    """Open a page with its data, as the server sends it."""

    @contextmanager
    def open_page(page: str, data: object, **options: Any) -> Iterator[Page]:
        file = workspace.parent / "page.html"
        file.write_bytes(inject(PAGES[page].read_bytes(), data))
        with chromium.new_context(**options) as context:
            shown = context.new_page()
            shown.goto(file.as_uri())
            shown.evaluate(DRAWN)
            yield shown

    return open_page


def result_of(load: Callable[[str, str], ModuleType], tool: str, **args: Any) -> Any:
    toolset_id, module, function = tool.split()
    return invoke(getattr(load(toolset_id, module), function), args)


HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
NAME = "<img src=x onerror=alert(2)>"


@pytest.mark.parametrize(
    ("page", "tool", "args"),
    [
        ("lines", "text-kit tools.kit search", {"pattern": HOSTILE}),
        ("lines", "text-kit tools.kit diff", {"path": NAME, "text": f"{HOSTILE}\n++ \n"}),
        ("chart", "data-lab tools.lab summarize", {"path": "table.csv"}),
    ],
)
def test_page_shows_hostile_data_as_text(
    opened: Callable[..., Any],
    load: Callable[[str, str], ModuleType],
    workspace: Path,
    page: str,
    tool: str,
    args: dict[str, Any],
) -> None:
    (workspace / NAME).write_text(f"😀{HOSTILE}\n-- \n@@ -1 +1 @@\n", encoding="utf-8")
    table = f"{NAME},n\n{NAME},1\n{NAME},2\n{HOSTILE},3\n"
    (workspace / "table.csv").write_text(table, encoding="utf-8")

    with opened(page, result_of(load, tool, **args)) as shown:
        main = shown.locator("main").first
        assert main.locator("img, script, iframe").count() == 0
        text = main.inner_text() + main.inner_html()
        assert NAME in text
        assert HOSTILE in text
        if page == "lines" and "pattern" in args:
            assert {*main.locator("mark").all_inner_texts()} == {HOSTILE}
        elif page == "lines":
            assert main.locator(".line.added, .line.removed").count() == 5


@pytest.mark.parametrize(
    ("tool", "args", "scheme", "width"),
    [
        ("text-kit tools.kit search", {"pattern": "x" * 390}, "light", 1280),
        pytest.param(
            "text-kit tools.kit diff", {"text": "x" * 300}, "dark", 375, marks=pytest.mark.rest
        ),
    ],
)
def test_page_of_lines_is_accessible_and_fits_every_window(
    opened: Callable[..., Any],
    load: Callable[[str, str], ModuleType],
    workspace: Path,
    tool: str,
    args: dict[str, Any],
    scheme: str,
    width: int,
) -> None:
    name = "d" * 80 + "/f"
    (workspace / name).parent.mkdir()
    (workspace / name).write_text("x" * 390 + "\n" + "y z" * 100 + "\n")
    (workspace / "g").write_bytes(b"\0")
    if "text" in args:
        args = {**args, "path": name}
    result = result_of(load, tool, **args)

    size = {"width": width, "height": 800}
    with opened("lines", result, color_scheme=scheme, viewport=size) as page:
        page.keyboard.press("n")
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") == width
