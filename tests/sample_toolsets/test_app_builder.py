"""What app-builder's tools do in a workspace, and that none of them leaves it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from covalt_git.python_reader.source import read_tool
from covalt_toolset import describe, get_tool_metadata, invoke, set_context

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

FOLDER = Path(__file__).resolve().parents[2] / "toolsets" / "app-builder"


@pytest.fixture(scope="module")
def files(load: Callable[[str, str], ModuleType]) -> ModuleType:
    return load("app-builder", "tools.files")


@pytest.fixture(scope="module")
def shell(load: Callable[[str, str], ModuleType]) -> ModuleType:
    return load("app-builder", "tools.shell")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace beside a file that nobody may touch."""
    (tmp_path / "secret.txt").write_text("secret", encoding="utf-8")
    (tmp_path / "workspace").mkdir()
    return tmp_path / "workspace"


def delete(files: ModuleType, workspace: Path, path: str) -> Any:
    with set_context(workspace=workspace):
        return invoke(files.delete_file, {"path": path})


def test_write_file_makes_its_folders_and_tells_the_size(
    files: ModuleType, workspace: Path
) -> None:
    result = files.write_file(workspace, "src/a/index.html", "héllo\r\n")

    assert result == {"written": "src/a/index.html", "size": 7}
    assert (workspace / "src/a/index.html").read_bytes() == "héllo\r\n".encode()


def test_read_file_gives_back_what_was_written(files: ModuleType, workspace: Path) -> None:
    content = "one\r\ntwo\rthree\n\ufeff"
    files.write_file(workspace, "a.txt", content)

    assert files.read_file(workspace, "a.txt") == {
        "path": "a.txt",
        "content": content,
        "size": len(content),
    }


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


def test_list_files_of_a_folder_keeps_paths_usable_from_the_workspace(
    files: ModuleType, workspace: Path
) -> None:
    files.write_file(workspace, "a/z.txt", "1")

    assert files.list_files(workspace, "a")["files"] == [{"path": "a/z.txt", "size": 1}]


def test_list_files_says_how_many_it_left_out(files: ModuleType, workspace: Path) -> None:
    for number in range(files.MAX_LISTED + 3):
        (workspace / f"{number:05}").touch()

    listed = files.list_files(workspace)

    assert (len(listed["files"]), listed["total"]) == (files.MAX_LISTED, files.MAX_LISTED + 3)


def test_edit_file_replaces_the_text_and_nothing_else(files: ModuleType, workspace: Path) -> None:
    files.write_file(workspace, "a.py", "x = 1\r\ny = 2\r\n")
    (workspace / "a.py").chmod(0o755)

    result = files.edit_file(workspace, "a.py", "y = 2", "y = 30")

    assert result == {"path": "a.py", "line": 2, "size": 15}
    assert (workspace / "a.py").read_bytes() == b"x = 1\r\ny = 30\r\n"
    assert (workspace / "a.py").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(
    ("old", "message"),
    [
        pytest.param("", "'old' is empty: give the text to replace, or use write_file", id="empty"),
        pytest.param(
            "z",
            "'old' is not in 'a.txt': read the file and copy the text exactly",
            id="absent",
        ),
        pytest.param(
            "aa",
            "'old' stands 3 times in 'a.txt' (lines 1, 1, 3): give more of the text around it",
            id="overlapping-places-count",
        ),
    ],
)
def test_edit_file_that_is_not_exact_changes_nothing(
    files: ModuleType, workspace: Path, old: str, message: str
) -> None:
    files.write_file(workspace, "a.txt", "aaa\nb\naa")

    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole message is compared
        files.edit_file(workspace, "a.txt", old, "c")

    assert str(caught.value) == message
    assert (workspace / "a.txt").read_text(encoding="utf-8") == "aaa\nb\naa"


def test_delete_file_removes_the_link_and_not_its_target(
    files: ModuleType, workspace: Path
) -> None:
    files.write_file(workspace, "kept.txt", "kept")
    (workspace / "link").symlink_to("kept.txt")
    (workspace / "out").symlink_to("../secret.txt")

    assert delete(files, workspace, "link") == {"deleted": "link"}
    assert delete(files, workspace, "out") == {"deleted": "out"}
    assert [path.name for path in workspace.iterdir()] == ["kept.txt"]
    assert (workspace / "../secret.txt").exists()


def test_delete_file_asks_by_its_decorator_alone(files: ModuleType) -> None:
    metadata = get_tool_metadata(files.delete_file)
    manifest = (FOLDER / "toolset.yaml").read_text(encoding="utf-8")
    declared = manifest.partition("- id: delete_file")[2].partition("- id:")[0]

    assert metadata
    assert metadata.requires_confirmation
    assert "requires_confirmation:" not in declared


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


@pytest.mark.parametrize("path", [*OUTSIDE, pytest.param("out", id="linked-file")])
@pytest.mark.parametrize("tool", ["write_file", "read_file", "list_files", "edit_file"])
def test_no_path_leads_outside(files: ModuleType, workspace: Path, tool: str, path: str) -> None:
    (workspace / "up").symlink_to("..")
    (workspace / "out").symlink_to("../secret.txt")
    (workspace / "circle").symlink_to("circle")
    more = {"write_file": ("x",), "edit_file": ("secret", "x")}.get(tool, ())

    with pytest.raises(
        ValueError, match=r"outside|not a path|cannot be followed|too long|Too many"
    ):
        getattr(files, tool)(workspace, path, *more)

    assert (workspace / "../secret.txt").read_text(encoding="utf-8") == "secret"


@pytest.mark.parametrize("path", [*OUTSIDE, pytest.param("a/..", id="no-name")])
def test_nothing_outside_is_deleted(files: ModuleType, workspace: Path, path: str) -> None:
    (workspace / "up").symlink_to("..")
    (workspace / "circle").symlink_to("circle")

    with pytest.raises(ValueError):  # noqa: PT011 - the reasons differ, what matters is below
        delete(files, workspace, path)

    assert (workspace / "../secret.txt").exists()


@given(path=st.text(st.sampled_from("ab./\\~ \n\u202eé"), max_size=12))
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None
)
def test_whatever_is_written_is_inside(files: ModuleType, workspace: Path, path: str) -> None:
    beside = sorted(workspace.parent.iterdir())
    try:
        files.write_file(workspace, path, "text")
    except ValueError:
        return

    assert sorted(workspace.parent.iterdir()) == beside
    assert files.read_file(workspace, path)["content"] == "text"


@pytest.mark.parametrize(
    ("path", "own"),
    [
        pytest.param("./a.txt", "a.txt", id="dot"),
        pytest.param("a.txt/", "a.txt", id="slash-at-the-end"),
        pytest.param("folder//../a.txt", "a.txt", id="up-again"),
        pytest.param("link", "a.txt", id="link"),
    ],
)
def test_another_path_of_a_file_is_refused_by_its_own(
    files: ModuleType, workspace: Path, path: str, own: str
) -> None:
    files.write_file(workspace, "a.txt", "text")
    (workspace / "folder").mkdir()
    (workspace / "link").symlink_to("a.txt")

    with pytest.raises(ValueError, match="leads to") as caught:
        files.read_file(workspace, path)

    assert str(caught.value) == f"{path!r} leads to {own!r}: give that path"


def test_refusals_say_why(files: ModuleType, workspace: Path) -> None:
    (workspace / "folder").mkdir()
    (workspace / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n\xff")
    (workspace / "large.txt").write_bytes(b"x" * (files.MAX_READ_BYTES + 1))
    os.mkfifo(workspace / "pipe")
    read, write = files.read_file, files.write_file
    calls: dict[str, Callable[[], object]] = {
        "there is no file 'none.txt' in the workspace": lambda: read(workspace, "none.txt"),
        "there is no file 'pipe' in the workspace": lambda: read(workspace, "pipe"),
        "there is no folder 'none' in the workspace": lambda: files.list_files(workspace, "none"),
        "'folder' is a folder: see what is in it with list_files": lambda: read(
            workspace, "folder"
        ),
        "'image.png' is not UTF-8 text (9 bytes)": lambda: read(workspace, "image.png"),
        "'large.txt' has 1048577 bytes, more than the 1048576 shown": lambda: read(
            workspace, "large.txt"
        ),
        "'folder' is a folder": lambda: write(workspace, "folder", ""),
        "'pipe' is not a regular file": lambda: write(workspace, "pipe", ""),
        "'image.png/a': Not a directory": lambda: write(workspace, "image.png/a", ""),
        "'folder' is a folder: delete its files one by one": lambda: delete(
            files, workspace, "folder"
        ),
        "'none.txt': No such file or directory": lambda: delete(files, workspace, "none.txt"),
    }
    for message, call in calls.items():
        with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole message is compared
            call()

        assert str(caught.value) == message


def test_text_that_cannot_be_stored_leaves_the_file_as_it_was(
    files: ModuleType, workspace: Path
) -> None:
    files.write_file(workspace, "a.txt", "before")

    with pytest.raises(ValueError, match="surrogates not allowed"):
        files.write_file(workspace, "a.txt", "half \ud800")

    assert files.read_file(workspace, "a.txt")["content"] == "before"


def test_run_command_keeps_both_outputs_in_order(shell: ModuleType, workspace: Path) -> None:
    command = "echo one; echo two >&2; echo three; exit 3"

    assert shell.run_command(workspace, command) == {
        "command": command,
        "output": "one\ntwo\nthree\n",
        "exit_code": 3,
    }


def test_run_command_runs_in_the_workspace_without_input(
    shell: ModuleType, workspace: Path
) -> None:
    result = shell.run_command(workspace, "cat; pwd; touch made")

    assert result["output"] == f"{workspace}\n"
    assert (workspace / "made").exists()


def test_run_command_does_not_wait_for_what_runs_on(shell: ModuleType, workspace: Path) -> None:
    """The program in the background waits for a line that comes only after the call."""
    os.mkfifo(workspace / "go")

    result = shell.run_command(workspace, "(read line < go; echo late > late) & echo started")
    (workspace / "go").write_text("\n", encoding="utf-8")

    assert result["output"] == "started\n"


def test_run_command_cuts_the_middle_of_a_long_output(shell: ModuleType, workspace: Path) -> None:
    half = shell.MAX_OUTPUT_BYTES // 2
    result = shell.run_command(
        workspace,
        f"head -c {half} /dev/zero | tr '\\0' a; printf 12345;"
        f"head -c {half} /dev/zero | tr '\\0' b",
    )

    assert result["output"] == "a" * half + "\n[5 bytes left out]\n" + "b" * half


def test_run_command_shows_bytes_that_are_no_text(shell: ModuleType, workspace: Path) -> None:
    assert (
        shell.run_command(workspace, r"printf 'a\377b'")["output"] == "a\N{REPLACEMENT CHARACTER}b"
    )


@pytest.mark.parametrize(
    ("module", "function"),
    [
        ("files", "write_file"),
        ("files", "read_file"),
        ("files", "list_files"),
        ("files", "edit_file"),
        ("files", "delete_file"),
        ("shell", "run_command"),
    ],
)
def test_reading_a_tool_and_loading_it_agree(
    load: Callable[[str, str], ModuleType], module: str, function: str
) -> None:
    loaded = describe(getattr(load("app-builder", f"tools.{module}"), function))
    source = read_tool((FOLDER / f"tools/{module}.py").read_bytes(), function)

    assert source.input_schema == loaded.input_schema
    assert source.description == loaded.description
    assert source.requires_confirmation == loaded.requires_confirmation
    assert source.takes_workspace == (function != "delete_file")
