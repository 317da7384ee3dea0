"""Pictures of the README and of docs/start: ``make screenshots`` writes ``docs/pictures/*.png``.

``python -m tests.screenshots approval`` writes only ``start-approval.png``.

Those of docs/start show what a reader sees at their place: the page is performed up to the picture.
"""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Browser, FloatRect, Page, expect, sync_playwright

from tests.browser import DRAWN, launched
from tests.command import Terminal
from tests.journeys.tip_calculator import CHAT, TipCalculator
from tests.operations_client import Operations
from tests.page_reader import Reader
from tests.test_pages import START, agent

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
URL = re.compile(r"http://127\.0\.0\.1:\d+/\S*")


STEPS = {
    "first-chat": ("install", "/chats/c1"),
    "own-tool": ("own-tool", "/chats/may"),
    "approval": ("connect-your-agent", "/approvals"),
    "compare": ("go-back-and-merge", "/chats/trip/diff?old=main&new=idea"),
    "review": ("review-in-ci", "/chats/review/files/summary.md"),
}
"""The pictures of docs/start, with their pages and with what a browser opens."""
LINKS = {"own-tool": "Page of the call", "approval": "write_file"}
"""What a browser clicks there."""


HEIGHTS = {"first-chat": 640, "approval": 840}
"""Heights of pictures that are cut at a wrong place at the height of the others."""


def main(*names: str) -> None:
    """Write all pictures, or those of docs/start with these names."""
    PICTURES.mkdir(exist_ok=True)
    if not names:
        write_pictures_of_the_readme()
    with sync_playwright() as driver, launched(driver) as chromium:
        for name in names or STEPS:
            with TemporaryDirectory() as folder:
                write_step(name, Path(folder), chromium)


def in_thread(thread: ThreadPoolExecutor, reader: Reader, request: str) -> None:
    """Let the agent work in another thread, because the browser's driver has the event loop of this one."""
    thread.submit(agent, reader, request).result()


def write_step(name: str, folder: Path, chromium: Browser) -> None:
    """Write a picture of docs/start."""
    page_name, path = STEPS[name]
    picture = f"start-{name}.png"
    home = folder / "home"
    home.mkdir()
    with ThreadPoolExecutor(1) as thread, Reader(home, partial(in_thread, thread)) as reader:
        for earlier in START[: START.index(page_name)]:
            reader.performs(ROOT / f"docs/start/{earlier}.md")
        reader.performs(ROOT / f"docs/start/{page_name}.md", until=picture)
        if name == "review":
            summary = reader.folder / "summary.md"
            # GitHub shows this as a new line, our pages show no HTML of Markdown.
            summary.write_text(summary.read_text().replace("<br>", "  \n  "))
            for command in ("chat new --id review", "chat upload review summary.md"):
                Terminal(*command.split(), cwd=reader.folder, env=reader.env).end()
        if not reader.url:
            reader.serves()
        height = HEIGHTS.get(name, 620)
        page = chromium.new_page(viewport={"width": 1000, "height": height}, color_scheme="light")
        page.goto(reader.url)
        page.goto(re.sub(r"(:\d+)/.*", rf"\1{path}", reader.url))
        if name in LINKS:
            page.get_by_role("link", name=LINKS[name]).first.click()
        page.wait_for_load_state("load")
        page.evaluate(DRAWN)
        page.evaluate("scrollTo(0, 0)")
        clip: FloatRect = {"x": 0, "y": 0, "width": 1000, "height": height}
        if name == "review":  # as in a pull request, without the page of the file
            clip = {"x": 0, "y": 200, "width": 640, "height": 190}
        page.screenshot(path=PICTURES / picture, clip=clip)
        page.close()


def write_pictures_of_the_readme() -> None:
    """Serve the sample project as ``make run`` does, and write its pictures."""
    with TemporaryDirectory() as folder:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        sample = subprocess.Popen(
            ["sh", "docs/sample.sh"],
            cwd=ROOT,
            env={**os.environ, "PATH": path, "SAMPLE": f"{folder}/sample"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert sample.stdout is not None
        try:
            url = next(found[0] for line in sample.stdout if (found := URL.search(line)))
            write(url, Operations(Path(folder) / "sample"))
        finally:
            sample.terminate()
            sample.wait()


def write(url: str, operate: Operations) -> None:
    """Write the pictures of a conversation with its preview, and of a history."""
    PICTURES.mkdir(exist_ok=True)
    home = re.sub(r"(:\d+)/.*", r"\1", url)
    operate("create_chat", chat_id=CHAT, title="Tip calculator")
    calculator = TipCalculator(operate)
    calculator.write()
    calculator.edit()
    with sync_playwright() as driver, launched(driver) as chromium:
        page = chromium.new_page(viewport={"width": 1280, "height": 800}, color_scheme="light")
        page.goto(url)
        page.goto(f"{home}/chats/{CHAT}")
        app = page.frame_locator(".preview-frame iframe")
        expect(app.locator("#each")).to_have_text("29.10")
        take(page, "conversation")
        page.set_viewport_size({"width": 1000, "height": 620})
        page.goto(f"{home}/chats/weather/history")
        take(page, "history")


def take(page: Page, name: str) -> None:
    """Write the picture of the top of a page, as it is drawn; a conversation opens at its end."""
    page.evaluate("scrollTo(0, 0)")
    page.evaluate(DRAWN)
    page.screenshot(path=PICTURES / f"{name}.png")


if __name__ == "__main__":
    main(*sys.argv[1:])
