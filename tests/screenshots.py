"""Pictures of the README, from the sample project: ``make screenshots`` writes ``docs/pictures/*.png``."""

import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Page, expect, sync_playwright

from tests.browser import DRAWN, launched
from tests.journeys.tip_calculator import CHAT, TipCalculator
from tests.operations_client import Operations

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
URL = re.compile(r"http://127\.0\.0\.1:\d+/\S*")


def main() -> None:
    """Serve the sample project as ``make run`` does, and write all pictures."""
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
    """Write the pictures of a conversation with its preview, of a history and of a report."""
    PICTURES.mkdir(exist_ok=True)
    home = re.sub(r"(:\d+)/.*", r"\1", url)
    operate("create_chat", chat_id=CHAT, title="Tip calculator")
    agent = TipCalculator(operate)
    agent.write()
    agent.edit()
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
        page.get_by_role("link", name="Report").first.click()
        page.wait_for_load_state("load")
        take(page, "result")


def take(page: Page, name: str) -> None:
    """Write the picture of the top of a page, as it is drawn; a conversation opens at its end."""
    page.evaluate("scrollTo(0, 0)")
    page.evaluate(DRAWN)
    page.screenshot(path=PICTURES / f"{name}.png")


if __name__ == "__main__":
    main()
