"""The specification's own toolset (section 10) as a ZIP: imported, enabled and called by an agent."""

import io
import zipfile
from pathlib import Path

import pytest

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


@pytest.mark.requirement("covalt-0.bundles", "covalt-10.files", "covalt-10.functions")
def test_the_imported_example_works(imported: Path) -> None:
    args = {"path": "a/b.py", "content": "print(1)"}
    done = call(imported, "app-builder.write_file", args, chat="c1")
    assert done.structured_content == {"written": "a/b.py", "size": 8}

    api = Api.of(imported)
    assert api.get("list_calls", chat_id="c1")["calls"][0]["status"] == "success"
    assert list(Api(imported, api.app).files()) == ["a/b.py"]
    pending = api.call("app-builder:run_command", command="ls")
    assert pending["status"] == "pending"
