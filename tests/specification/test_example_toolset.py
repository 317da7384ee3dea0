"""The specification's own toolset (section 10) as a ZIP: imported, enabled, and called through every interface."""

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from covalt_git import open_project
from covalt_git.cli import cli
from covalt_git.runtime import sandbox_levels
from tests.api_client import Api, form_file
from tests.journeys.test_specification import SPECIFICATION, example
from tests.mcp_client import call
from tests.server.visitor import Visitor

pytestmark = [
    pytest.mark.skipif(not SPECIFICATION.exists(), reason="the specification is not here"),
    pytest.mark.skipif(
        sandbox_levels.level() == "process", reason="imported toolsets need a sandbox"
    ),
]
TOOL = "app-builder:write_file"
ARGS = {"path": "a/b.py", "content": "print(1)"}


@pytest.fixture
def imported(root: Path) -> Path:
    """A project without the sample of the same id, in which the ZIP was imported and enabled."""
    api = Api.of(root)
    api.post("uninstall_toolset", toolset_id="app-builder", force=True)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as bundle:
        bundle.writestr("toolset.yaml", example("10", "yaml"))
        bundle.writestr("tools/files.py", example("10", "python", 0))
        bundle.writestr("tools/shell.py", example("10", "python", 1))
    sent = api.send_form(
        "import_toolset", {"file": form_file("app-builder.zip", archive.getvalue())}
    )
    assert sent.status_code == 200
    Visitor.of(root).send(Visitor.of(root).open("/toolsets/app-builder").form("/enabled"))
    api.post("create_chat", chat_id="c1", title="A chat")
    return root


def by_cli(root: Path) -> Any:
    args = ["-C", str(root), "call", "c1", TOOL, json.dumps(ARGS), "--json"]
    return json.loads(CliRunner().invoke(cli, args, catch_exceptions=False).stdout)["result"]


def by_api(root: Path) -> Any:
    return Api.of(root).post("call_tool", chat_id="c1", tool_id=TOOL, args=ARGS)["result"]


def by_mcp(root: Path) -> Any:
    return call(root, TOOL.replace(":", "."), ARGS, chat="c1").structured_content


def by_python(root: Path) -> Any:
    with open_project(root) as project:
        return project.chat("c1").call(TOOL, ARGS).value


def by_page(root: Path) -> Any:
    visitor = Visitor.of(root)
    form = visitor.open(f"/tools/{TOOL}?chat=c1").form("write_file")
    page = visitor.send(form, "Run", **{f"args/{name}": text for name, text in ARGS.items()})
    assert "print(1)" in page.text
    (row,) = Api.of(root).get("list_calls", chat_id="c1")["calls"]
    return Api.of(root).get("get_call", chat_id="c1", call_id=row["id"])["result"]


@pytest.mark.requirement("covalt-0.bundles", "covalt-10.files", "covalt-10.functions")
@pytest.mark.parametrize("called", [by_cli, by_api, by_mcp, by_python, by_page])
def test_the_imported_example_works(imported: Path, called: Callable[[Path], Any]) -> None:
    assert called(imported) == {"written": "a/b.py", "size": 8}

    api = Api.of(imported)
    assert api.get("list_calls", chat_id="c1")["calls"][0]["status"] == "success"
    assert list(Api(imported, api.app).files()) == ["a/b.py"]
    pending = api.call("app-builder:run_command", command="ls")
    assert pending["status"] == "pending"
