"""Tests of the tools with a service on this machine, which needs a token: ``pytest toolsets/my-toolset/tests``."""

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from covalt_toolset import Answering, SignInNeeded, invoke, set_context

sys.path.insert(0, str(Path(__file__).parents[1]))

from tools import items

TOKEN = "a-token-of-this-test"
SIGNED_IN = Answering(tokens={"my-toolset": TOKEN})


class Service(BaseHTTPRequestHandler):
    """A service with three items, for users with the token."""

    def do_GET(self) -> None:
        limit = int(self.path.partition("limit=")[2])
        self._answer({"items": [{"id": number} for number in range(3)][:limit]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._answer({"id": 3, **body})

    def _answer(self, answer: object) -> None:
        is_allowed = self.headers["Authorization"] == f"Bearer {TOKEN}"
        self.send_response(200 if is_allowed else 401)
        self.end_headers()
        self.wfile.write(json.dumps(answer if is_allowed else {}).encode())

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture(autouse=True)
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Service) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setattr(items, "API", f"http://127.0.0.1:{server.server_port}")
        yield
        server.shutdown()


def test_items_are_listed_and_created(tmp_path: Path) -> None:
    with set_context(workspace=tmp_path, listener=SIGNED_IN):
        assert invoke(items.list_items, {"limit": 2}) == [{"id": 0}, {"id": 1}]
        assert invoke(items.create_item, {"name": "tea"}) == {"id": 3, "name": "tea"}


def test_without_a_sign_in_nothing_is_sent(tmp_path: Path) -> None:
    with set_context(workspace=tmp_path), pytest.raises(SignInNeeded):
        invoke(items.list_items, {})
