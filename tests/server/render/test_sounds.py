"""Audio of a workspace in a real browser."""

from __future__ import annotations

import io
import wave
from pathlib import Path

from playwright.sync_api import BrowserContext

from tests.api_client import Api
from tests.browser import console_errors
from tests.live_server import live

TOOLS = """
def hum() -> list[object]:
    return ["listen", {"file": "hum.wav", "size": 1, "media_type": "audio/wav"}]
"""
MANIFEST = """\
id: sings
name: Sings
version: "1"
tools: [{id: hum, entrypoint: "tools:hum"}]
"""
LENGTH = "async one => { while (one.readyState < 1) await new Promise(go => setTimeout(go, 20)); return one.duration }"


def silence() -> bytes:
    """Return half a second of silence."""
    content = io.BytesIO()
    with wave.open(content, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(bytes(8000))
    return content.getvalue()


def test_audio_is_played_on_its_page_and_on_the_page_of_its_call(
    root: Path, api: Api, context: BrowserContext
) -> None:
    folder = root / "toolsets" / "sings"
    folder.mkdir()
    (folder / "toolset.yaml").write_text(MANIFEST)
    (folder / "tools.py").write_text(TOOLS)
    api.upload(("hum.wav", silence()))
    call = api.call("sings:hum")
    with live(root) as served:
        page = context.new_page()
        errors = console_errors(page)
        page.goto(served.door)
        lengths = []
        for path in ("/chats/c1/files/hum.wav", f"/chats/c1/calls/{call['id']}"):
            page.goto(f"{served.url}{path}")
            lengths.append(page.locator("audio[controls]").evaluate(LENGTH))

    assert lengths == [0.5, 0.5]
    assert errors == []
