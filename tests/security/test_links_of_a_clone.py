"""No command writes through a symbolic link that a clone has in place of a folder."""

import os
from pathlib import Path

import pytest

from covalt_git.cli import main
from covalt_git.errors import CovaltError
from covalt_git.manifests.machine_folders import WRITTEN
from covalt_git.project import Project
from tests.api_client import make_project
from tests.operations_client import Operations
from tests.trusting import use_config

COMMANDS = [
    ("chat", "new", "--id", "c9"),
    ("call", "c1", "app-builder:write_file", '{"path": "a", "content": "b"}'),
    ("grant", "add", "app-builder", "network", "a.example", "--no-terminal", "test"),
    ("toolset", "disable", "app-builder"),
    ("toolset", "new", "mine"),
    ("registry", "add", "entry.json"),
    ("tool", "list"),
    ("mcp", "install", "vscode", "--yes"),
    ("index", "rebuild"),
    ("token", "new", "--name", "t", "--role", "r"),
    ("init", "."),
]
LINKS = [
    *WRITTEN,
    "data/chats",
    "data/cache",
    "data/tokens",
    "data/serving",
    "data/index.db",
    "data/chats/c1",
]


def tree(folder: Path) -> list[str]:
    return sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = make_project(tmp_path / "project")
    (root / "entry.json").write_text('{"tool_id": "x", "name": "X"}')
    return root


def link(root: Path, path: str, outside: Path) -> None:
    """Move a folder of the project out of it, and leave a link."""
    outside.mkdir()
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    if os.path.lexists(place):
        place.rename(outside / "moved")
        place.symlink_to(outside / "moved")
    else:
        (outside / "moved").mkdir()
        place.symlink_to(outside / "moved")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("path", LINKS)
def test_no_command_writes_through_a_link(
    root: Path,
    tmp_path: Path,
    path: str,
    command: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    outside = tmp_path / "outside"
    link(root, path, outside)
    if command[0] == "init":
        (root / "covalt.yaml").unlink()
    before = tree(outside)
    monkeypatch.chdir(root)

    with pytest.raises(SystemExit) as ended:
        main([*command])

    printed = capsys.readouterr()
    assert tree(outside) == before
    assert ended.value.code == 1
    assert f"{path!r} is a symbolic link" in printed.err
    assert "rm " in printed.err


@pytest.mark.parametrize("path", [".vscode", ".vscode/mcp.json"])
def test_mcp_install_writes_no_file_through_a_link(root: Path, tmp_path: Path, path: str) -> None:
    outside = tmp_path / "outside"
    link(root, path, outside)
    before = tree(outside)

    with pytest.raises(SystemExit) as ended:
        main(["-C", str(root), "mcp", "install", "vscode", "--yes"])

    assert ended.value.code != 0
    assert tree(outside) == before


@pytest.mark.parametrize("name", ["covalt.yaml", ".gitignore", "toolsets/text-kit"])
def test_init_creates_no_file_through_a_dangling_link(tmp_path: Path, name: str) -> None:
    root = tmp_path / "clone"
    (root / "toolsets").mkdir(parents=True)
    (root / name).symlink_to(tmp_path / "written")

    with pytest.raises(SystemExit) as ended:
        main(["init", str(root)])

    assert ended.value.code == 1
    assert not (tmp_path / "written").exists()


@pytest.mark.parametrize("path", LINKS)
def test_validate_reports_each_link(root: Path, tmp_path: Path, path: str) -> None:
    link(root, path, tmp_path / "outside")

    problems = Operations(root)("validate")["problems"]

    assert [problem["path"] for problem in problems if problem["code"] == "CG404"] == [path]


def test_the_user_can_store_data_on_another_disk(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_config(monkeypatch, tmp_path / "config")
    disk = tmp_path / "disk"
    disk.mkdir()
    (root / "data").symlink_to(disk)
    with pytest.raises(CovaltError) as refused:
        Project.open(root)
    command = refused.value.hint.partition("if you made the link: ")[2]

    assert os.system(command) == 0

    Operations(root)("create_chat", chat_id="c1")
    assert (disk / "chats/c1").is_dir()
    assert Operations(root)("validate")["problems"] == []
