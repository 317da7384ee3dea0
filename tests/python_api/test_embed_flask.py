"""The example application with a project in it."""

import importlib.util
from pathlib import Path

from covalt_git import open_project
from tests.api_client import make_project

APP = Path(__file__).parents[2] / "examples" / "embed_flask" / "app.py"


def test_the_example_lists_tools_calls_them_and_shows_files(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("embed_flask", APP)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    with open_project(make_project(tmp_path / "project")) as project:
        project.create_chat("c1")
        client = example.create_app(project).test_client()
        args = {"path": "a.txt", "content": "hello"}
        called = client.post("/chats/c1/calls/app-builder:write_file", json=args)
        unknown = client.post("/chats/c1/calls/app-builder:nothing", json={})

        assert "app-builder:write_file" in [tool["id"] for tool in client.get("/tools").get_json()]
        assert called.get_json()["status"] == "success"
        assert client.get("/chats/c1/files/a.txt").get_data() == b"hello"
        assert (unknown.status_code, unknown.get_json()["error"]) == (404, "unknown_tool")
