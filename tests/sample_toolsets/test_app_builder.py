"""App Builder: its tools read, write, list, edit and delete files of the workspace only, and run commands."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from covalt_toolset import invoke


@pytest.fixture(scope="module")
def files(load: Callable[[str, str], ModuleType]) -> ModuleType:
    return load("app-builder", "tools.files")


def delete(files: ModuleType, path: str) -> Any:
    return invoke(files.delete_file, {"path": path})


# Files


def test_list_files_names_files_in_order_and_enters_no_link(
    files: ModuleType, workspace: Path
) -> None:
    for path in ("b.txt", "a/z.txt", "a/b/c.txt", ".env", "a.txt"):
        files.write_file(workspace, path, "12345")
    (workspace / "empty").mkdir()
    (workspace / "up").symlink_to("..")

    listed = files.list_files(workspace)

    names = [file["path"] for file in listed["files"]]
    assert names == [".env", "a/b/c.txt", "a/z.txt", "a.txt", "b.txt", "up"]
    assert listed["files"][0] == {"path": ".env", "size": 5}
    assert (listed["path"], listed["total"]) == (".", 6)
    inside = files.list_files(workspace, "a")["files"]
    assert [file["path"] for file in inside] == ["a/b/c.txt", "a/z.txt"]


@pytest.mark.parametrize(
    ("old", "message"),
    [
        pytest.param("", "'old' is empty", id="empty"),
        pytest.param("z", "'old' is not in 'a.txt'", id="absent"),
        pytest.param("aa", r"3 times in 'a.txt' \(lines 1, 1, 3\)", id="overlapping-places-count"),
    ],
)
def test_edit_that_is_not_exact_changes_nothing(
    files: ModuleType, workspace: Path, old: str, message: str
) -> None:
    files.write_file(workspace, "a.txt", "aaa\nb\naa")

    with pytest.raises(ValueError, match=message):
        files.edit_file(workspace, "a.txt", old, "c")

    assert (workspace / "a.txt").read_text(encoding="utf-8") == "aaa\nb\naa"


def test_delete_file_removes_the_link_and_not_its_target(
    files: ModuleType, workspace: Path
) -> None:
    files.write_file(workspace, "kept.txt", "kept")
    (workspace / "link").symlink_to("kept.txt")
    (workspace / "out").symlink_to("../secret.txt")

    assert delete(files, "link") == {"deleted": "link"}
    assert delete(files, "out") == {"deleted": "out"}
    assert [path.name for path in workspace.iterdir()] == ["kept.txt"]


# Paths

OUTSIDE = [
    pytest.param("../secret.txt", id="dots"),
    pytest.param("a/../../secret.txt", id="dots-within"),
    pytest.param("/etc/hostname", id="absolute"),
    pytest.param("up/secret.txt", id="through-a-linked-folder"),
    pytest.param("bad\0name", id="null-byte"),
    pytest.param("circle/a", id="links-in-a-circle"),
    pytest.param("x" * 5000, id="too-long"),
    pytest.param("..", id="the-parent"),
]
TOOLS: dict[str, Callable[[ModuleType, Path, str], object]] = {
    "write_file": lambda files, workspace, path: files.write_file(workspace, path, "x"),
    "read_file": lambda files, workspace, path: files.read_file(workspace, path),
    "list_files": lambda files, workspace, path: files.list_files(workspace, path),
    "edit_file": lambda files, workspace, path: files.edit_file(workspace, path, "secret", "x"),
    "delete_file": lambda files, _, path: delete(files, path),
}


@pytest.mark.parametrize("path", [*OUTSIDE, pytest.param("out", id="linked-file")])
@pytest.mark.parametrize("tool", TOOLS)
def test_path_outside_the_workspace_is_refused(
    files: ModuleType, workspace: Path, tool: str, path: str
) -> None:
    (workspace / "up").symlink_to("..")
    (workspace / "out").symlink_to("../secret.txt")
    (workspace / "circle").symlink_to("circle")
    if tool == "delete_file" and path == "out":
        path = "a/.."  # the link itself may be deleted

    with pytest.raises(
        ValueError,
        match=r"leads outside|not a path|cannot be followed|too long|Too many|does not name",
    ):
        TOOLS[tool](files, workspace, path)
