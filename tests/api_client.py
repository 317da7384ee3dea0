"""A project behind its server, and short ways to ask it things as a program would."""

import io
import json
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any, Self

from flask import Flask
from flask.testing import FlaskClient
from werkzeug.datastructures import FileStorage
from werkzeug.test import TestResponse, encode_multipart

from covalt_git.errors import CovaltError
from covalt_git.toolsets.new_project import create_project
from covalt_server.app import create_app

PORT = 8787
TOKEN = "the-token-of-this-test"
HOME = f"http://127.0.0.1:{PORT}"
NO_NOTES: dict[str, list[Any]] = {
    "empty_folders": [],
    "not_stored": [],
    "unportable": [],
    "lost": [],
}
BEARER = {"Authorization": f"Bearer {TOKEN}"}


def make_project(folder: Path) -> Path:
    """Make a project with the sample toolsets that does not wait for the disk."""
    create_project(folder)
    configure(folder)
    return folder


def configure(root: Path, text: str = "") -> None:
    """Write ``covalt.yaml``: what every test wants, and ``text``."""
    base = "version: 1\nworkspace: {durability: fast, max_file_mb: 1}\n"
    (root / "covalt.yaml").write_text(base + dedent(text), encoding="utf-8")


@dataclass(frozen=True)
class Api:
    """The API of a project for one role."""

    root: Path
    app: Flask

    @classmethod
    def of(cls, root: Path, role: str | None = None) -> Self:
        return cls(root, create_app(root, token=TOKEN, port=PORT, role=role))

    def client(self) -> FlaskClient:
        return self.app.test_client()

    @property
    def workspace(self) -> Path:
        """The folder of the chat c1."""
        return self.root / "data" / "chats" / "c1" / "workspace"

    @property
    def store(self) -> Path:
        return self.root / "data" / "chats" / "c1" / "store.git"

    # Asking

    def ask(
        self, operation: str, /, *, headers: dict[str, str] | None = None, **query: Any
    ) -> TestResponse:
        """Ask with GET, whatever comes of it."""
        return self.client().get(
            f"/api/{operation}",
            base_url=HOME,
            query_string={name: str(value) for name, value in query.items()},
            headers=BEARER | (headers or {}),
        )

    def tell(self, operation: str, /, **body: Any) -> TestResponse:
        """Ask with POST, whatever comes of it."""
        return self.client().post(f"/api/{operation}", base_url=HOME, json=body, headers=BEARER)

    def get(self, operation: str, /, **query: Any) -> Any:
        """Return the answer of a GET that goes well."""
        return answered(self.ask(operation, **query))

    def post(self, operation: str, /, **body: Any) -> Any:
        """Return the answer of a POST that goes well."""
        return answered(self.tell(operation, **body))

    def upload(self, *files: tuple[str, bytes], **fields: str) -> TestResponse:
        """Upload files to the chat c1, whatever comes of it."""
        parts = [form_file(name, content) for name, content in files]
        return self.send_form("upload_files", {"chat_id": "c1", "files": parts, **fields})

    def send_form(self, operation: str, values: dict[str, object]) -> TestResponse:
        """Send a form with files, whatever comes of it."""
        # The test client would leave a large form open in a temporary file.
        boundary, body = encode_multipart(values)
        return self.client().post(
            f"/api/{operation}",
            base_url=HOME,
            data=body,
            content_type=f"multipart/form-data; boundary={boundary}",
            headers=BEARER,
        )

    # Doing

    def call(self, tool_id: str, /, **args: object) -> Any:
        """Call a tool in the chat c1."""
        return self.post("call_tool", chat_id="c1", tool_id=tool_id, args=args)

    def write(self, path: str, content: str) -> Any:
        """Have a tool write a file, which makes a state."""
        return self.call("app-builder:write_file", path=path, content=content)

    def files(self, manifest: str = "HEAD") -> dict[str, Any]:
        """Return the files of a manifest of the chat c1 by path."""
        listed = self.get("get_workspace_files", chat_id="c1", manifest=manifest)
        return {file["path"]: file for file in listed["files"]}

    def read(self, path: str, **query: Any) -> TestResponse:
        return self.ask("get_workspace_file", chat_id="c1", path=path, **query)


def form_file(name: str, content: bytes) -> FileStorage:
    """Return a file as a form carries it."""
    return FileStorage(io.BytesIO(content), filename=name)


def answered(response: TestResponse) -> Any:
    """Return the JSON of an answer that went well."""
    assert response.status_code == 200, response.get_data(as_text=True)
    assert response.mimetype == "application/json"
    return json.loads(response.get_data())


def refused(response: TestResponse, status: int, code: str) -> Any:
    """Make sure that an answer is the one error shape, and return it."""
    assert response.status_code == status, response.get_data(as_text=True)
    assert response.mimetype == "application/json"
    told = json.loads(response.get_data())
    assert told.keys() == CovaltError("").as_json().keys()
    assert told["error"] == code
    assert told["error_description"]
    assert "Traceback" not in response.get_data(as_text=True)
    for problem in told["problems"]:
        assert {"path", "line", "col", "code", "severity", "message", "hint"} == problem.keys()
    return told
