"""Pictures of the README, from the sample project: ``make screenshots`` writes ``docs/pictures/*.png``."""

import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import sync_playwright

from tests.browser import DRAWN, launched

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
URL = re.compile(r"http://127\.0\.0\.1:\d+/\S*")


def main() -> None:
    """Serve the sample project as ``make run`` does, and write both pictures."""
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
            write(url)
        finally:
            sample.terminate()
            sample.wait()


def write(url: str) -> None:
    """Write the pictures of the chat's history and of the report that one of its calls wrote."""
    PICTURES.mkdir(exist_ok=True)
    with sync_playwright() as driver, launched(driver) as chromium:
        page = chromium.new_page(viewport={"width": 1000, "height": 620}, color_scheme="light")
        page.goto(url)
        page.goto(re.sub(r"(:\d+)/.*", r"\1/chats/weather/history", url))
        page.evaluate(DRAWN)
        page.screenshot(path=PICTURES / "history.png")
        page.get_by_role("link", name="Report").first.click()
        page.wait_for_load_state("load")
        page.evaluate(DRAWN)
        page.screenshot(path=PICTURES / "result.png")


if __name__ == "__main__":
    main()
