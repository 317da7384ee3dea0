"""``covalt-git toolset update`` and ``toolset diff``: what a person sees, and what a script reads."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests import command

MANIFEST = """\
id: demo
name: Demo
version: "1"
tools:
  - {id: run, entrypoint: "tools.a:run"}
"""
TOOL = 'def run() -> str:\n    """Run."""\n    return "x"\n'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project that took in ``demo`` from a folder, where a second version of it lies now."""
    made, theirs = tmp_path / "project", tmp_path / "theirs"
    (made / "toolsets").mkdir(parents=True)
    (theirs / "tools").mkdir(parents=True)
    (made / "covalt.yaml").write_text("version: 1\n", encoding="utf-8")
    (theirs / "toolset.yaml").write_text(MANIFEST, encoding="utf-8")
    (theirs / "tools/a.py").write_text(TOOL, encoding="utf-8")
    assert covalt(made, "bundle", "import", "../theirs")[0] == 0
    newer = MANIFEST.replace('"1"', '"2"') + "secrets: [A_KEY]\n"
    (theirs / "toolset.yaml").write_text(newer, encoding="utf-8")
    (theirs / "tools/a.py").write_text(TOOL.replace("Run.", "Run it."), encoding="utf-8")
    return made


def covalt(root: Path, *args: str) -> tuple[int, str]:
    done = command.run(*args, cwd=root)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


def test_an_update_is_told_file_by_file_and_a_conflict_ends_with_one(root: Path) -> None:
    tool = root / "toolsets/demo/tools/a.py"
    tool.write_text(TOOL.replace("Run.", "Ours."), encoding="utf-8")

    planned = covalt(root, "toolset", "update", "demo", "--dry-run")
    done = covalt(root, "toolset", "update", "demo")

    told = (
        "demo 1 -> 2: 2 files\n"
        "  ! tools/a.py  (both changed it)\n"
        "  ~ toolset.yaml\n"
        "  it newly asks for secrets: A_KEY\n"
    )
    assert planned == (1, f"{told}nothing has changed\n")
    assert done == (1, f"{told}decide 1 conflict, then:\n  covalt-git validate toolsets/demo\n")
    status, said = covalt(root, "validate", "toolsets/demo")
    assert (status, "tools/a.py:2:1: CG314 a merge conflict marker" in said) == (1, True)

    status, said = covalt(root, "toolset", "update", "demo", "--force", "--json")
    told_json = json.loads(said)
    assert (status, told_json["conflicts"], told_json["newly_wants"]) == (0, [], {})
    assert (root / told_json["replaced"]).is_file()
    assert covalt(root, "toolset", "update", "demo") == (0, "demo 2 is up to date\n")


def test_the_difference_is_a_patch_that_git_takes_back(root: Path) -> None:
    folder = root / "toolsets/demo"
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    (folder / "tools/a.py").write_text(TOOL.replace("Run.", "Ours."), encoding="utf-8")
    (folder / "tools/a.py").chmod(0o755)
    (folder / "new.md").write_text("new", encoding="utf-8")

    assert covalt(root, "toolset", "diff", "demo", "--stat") == (0, "  + new.md\n  ~ tools/a.py\n")
    _, patch = covalt(root, "toolset", "diff", "demo")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    subprocess.run(["git", "apply", "-R"], cwd=root, input=patch, text=True, check=True)

    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert covalt(root, "toolset", "diff", "demo") == (
        0,
        "nothing of demo has changed since it was imported\n",
    )


def test_what_changed_since_a_grant_can_be_looked_at(root: Path) -> None:
    covalt(root, "grant", "add", "demo", "network", "example.com")
    (root / "toolsets/demo/tools/a.py").write_text(TOOL + "# more\n", encoding="utf-8")

    status, said = covalt(root, "toolset", "diff", "demo", "--granted", "network", "--json")

    assert status == 0
    (file,) = json.loads(said)["files"]
    assert (file["path"], file["kind"]) == ("tools/a.py", "modified")
    assert "+# more" in file["patch"]
    status, said = covalt(root, "toolset", "diff", "demo", "--granted", "netwrok")
    assert (status, "did you mean 'network'" in said) == (1, True)


def test_what_changed_since_a_server_was_granted_is_told_by_the_list(root: Path) -> None:
    manifest = root / "toolsets/demo/toolset.yaml"
    manifest.write_text(MANIFEST + "mcp_servers: [{id: far, command: far}]\n", encoding="utf-8")
    covalt(root, "grant", "add", "demo", "process", "far")

    status, said = covalt(root, "toolset", "diff", "demo", "--granted", "process-far")
    assert status == 1
    assert said == (
        "'process-far' was granted for what the MCP server is, whatever else changes\n"
        "  hint: what is otherwise: covalt-git grant list demo\n"
    )
