"""The files of a toolset's folder: all of them, their kinds, and those that may not be there."""

from __future__ import annotations

import hashlib
import os
import socket
import sys
from typing import TYPE_CHECKING

import pytest

from covalt_git.json_values import canonical_json
from covalt_git.manifests.toolset_files import MAX_FILE_BYTES, MAX_FILES, read_bundle_files
from covalt_git.problems import codes

if TYPE_CHECKING:
    from pathlib import Path


def put(folder: Path, *paths: str) -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)


def told(folder: Path) -> list[str]:
    return [str(one) for one in read_bundle_files(folder, "t").problems]


def test_files_are_listed_by_path_with_their_kind(tmp_path: Path) -> None:
    put(
        tmp_path,
        *("toolset.yaml", "tools/files.py", "tools/data.txt", "lib/help.py", "README.md"),
        *(
            "artifacts/chart.html",
            "artifacts/chart.py",
            "assets/toolset.yaml",
            ".env",
            "a-b",
            "a/c",
        ),
    )

    found = read_bundle_files(tmp_path, "t")

    assert [(file.path, file.kind) for file in found.files] == [
        (".env", "asset"),
        ("README.md", "asset"),
        ("a-b", "asset"),
        ("a/c", "asset"),
        ("artifacts/chart.html", "artifact"),
        ("artifacts/chart.py", "python"),
        ("assets/toolset.yaml", "asset"),
        ("lib/help.py", "python"),
        ("tools/data.txt", "asset"),
        ("tools/files.py", "python"),
        ("toolset.yaml", "config"),
    ]
    assert found.problems == ()
    file = found.get("tools/files.py")
    assert file is not None
    assert file.sha256 == hashlib.sha256(b"tools/files.py").hexdigest()
    assert file.size == 14
    assert found.get("tools") is None


def test_digest_is_of_the_sorted_modes_paths_and_hashes(tmp_path: Path) -> None:
    put(tmp_path, "b", "a/x")
    (tmp_path / "b").chmod(0o755)
    rows = [
        ["100644", "a/x", hashlib.sha256(b"a/x").hexdigest()],
        ["100755", "b", hashlib.sha256(b"b").hexdigest()],
    ]

    assert read_bundle_files(tmp_path, "t").digest == canonical_json.digest(rows)


def test_what_python_leaves_behind_is_no_part_of_it(tmp_path: Path) -> None:
    put(tmp_path, "a.py", "__pycache__/a.cpython-311.pyc", "lib/__pycache__/b", "old.pyc", "x.pyo")

    assert [file.path for file in read_bundle_files(tmp_path, "t").files] == ["a.py"]


@pytest.mark.parametrize("target", ["a.txt", "nowhere", "/etc/passwd", ".", ".."])
def test_links_are_refused_and_not_followed(tmp_path: Path, target: str) -> None:
    put(tmp_path, "a.txt")
    (tmp_path / "link").symlink_to(target)

    (line,) = told(tmp_path)
    assert line == (
        "t/link: CG305 a toolset holds files and folders only, no links or devices\n"
        "  hint: put the file itself there"
    )
    assert [file.path for file in read_bundle_files(tmp_path, "t").files] == ["a.txt"]


def test_pipes_and_sockets_are_refused_without_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the address of a socket has room for a short name only
    os.mkfifo("pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")

        assert [line.partition(" ")[0] for line in told(tmp_path)] == ["t/pipe:", "t/socket:"]


@pytest.mark.parametrize("name", [".git", ".GIT", "git~1", "a\nb", ".git ", "tab\there"])
def test_names_that_could_do_harm_are_refused_with_all_below(tmp_path: Path, name: str) -> None:
    put(tmp_path, f"{name}/config", "a.txt")

    found = read_bundle_files(tmp_path, "t")

    assert [file.path for file in found.files] == ["a.txt"]
    assert [one.code for one in found.problems] == [codes.FORBIDDEN_FILE]


@pytest.mark.skipif(sys.platform == "darwin", reason="its file system has UTF-8 names only")
def test_a_name_that_is_no_text_is_told_in_text(tmp_path: Path) -> None:
    with open(os.fsencode(tmp_path) + b"/caf\xe9", "w"):  # noqa: PTH123 - a name in bytes
        pass

    assert told(tmp_path) == [
        "t/caf\\xe9: CG305 its name is not UTF-8\n  hint: rename it",
    ]


def test_an_empty_folder_is_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty" / "inner").mkdir(parents=True)

    assert read_bundle_files(tmp_path, "t").files == ()
    assert told(tmp_path) == []


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    assert told(tmp_path / "nowhere") == [
        "t: CG101 the folder cannot be read: no such file or directory"
    ]


def test_too_large_a_file_is_told_and_not_read(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)

    found = read_bundle_files(tmp_path, "t")

    assert found.files == ()
    assert str(found.problems[0]) == (
        "t/large: CG107 the file is larger than 64 MiB\n"
        "  hint: a chat's workspace is the place for large data"
    )


def test_too_many_files_are_one_problem(tmp_path: Path) -> None:
    for number in range(MAX_FILES + 3):
        (tmp_path / f"f{number}").touch()

    found = read_bundle_files(tmp_path, "t")

    assert len(found.files) == MAX_FILES
    assert [str(one).splitlines()[0] for one in found.problems] == [
        "t: CG107 there are more than 5000 files in it"
    ]


def test_folders_in_folders_without_end_are_one_problem(tmp_path: Path) -> None:
    put(tmp_path, "d/" * 200 + "bottom.txt")

    (problem,) = read_bundle_files(tmp_path, "t").problems

    assert problem.code == codes.FORBIDDEN_FILE
    assert problem.message == "its path is too long"
