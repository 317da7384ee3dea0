"""The files of a toolset's folder: all of them, their kinds, and forbidden files."""

import hashlib
import os
import socket
from pathlib import Path

import pytest

from covalt_git.json_values import canonical_json
from covalt_git.manifests.toolset_files import MAX_FILE_BYTES, read_bundle_files
from covalt_git.problems import codes


def put(folder: Path, *paths: str) -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)


@pytest.mark.requirement("covalt-1.2.kind", "covalt-3.1.folders")
def test_files_are_listed_by_path_with_their_kind(tmp_path: Path) -> None:
    put(
        tmp_path,
        *("toolset.yaml", "tools/files.py", "tools/data.txt", "lib/help.py", "README.md", ".env"),
        *("artifacts/chart.html", "artifacts/chart.py", "assets/toolset.yaml", "a-b", "a/c"),
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
    assert found.get("tools") is None


def test_digest_is_of_the_sorted_modes_paths_and_hashes(tmp_path: Path) -> None:
    put(tmp_path, "b", "a/x")
    (tmp_path / "b").chmod(0o755)
    rows = [
        ["100644", "a/x", hashlib.sha256(b"a/x").hexdigest()],
        ["100755", "b", hashlib.sha256(b"b").hexdigest()],
    ]

    assert read_bundle_files(tmp_path, "t").digest == canonical_json.digest(rows)


def codes_of(folder: Path) -> list[tuple[str, str]]:
    """Return the path and code of each problem."""
    return [(one.path, one.code) for one in read_bundle_files(folder, "t").problems]


@pytest.mark.parametrize("target", ["a.txt", "nowhere", "/etc/passwd", ".", ".."])
def test_links_are_refused_and_not_followed(tmp_path: Path, target: str) -> None:
    put(tmp_path, "a.txt")
    (tmp_path / "link").symlink_to(target)

    assert codes_of(tmp_path) == [("t/link", codes.FORBIDDEN_FILE)]
    assert [file.path for file in read_bundle_files(tmp_path, "t").files] == ["a.txt"]


def test_pipes_and_sockets_are_refused_without_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the address of a socket has room for a short name only
    os.mkfifo("pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")

        assert [path for path, _ in codes_of(tmp_path)] == ["t/pipe", "t/socket"]


@pytest.mark.parametrize("name", [".git", ".GIT", "git~1", "a\nb", ".git ", "tab\there"])
def test_dangerous_names_are_refused_with_all_below(tmp_path: Path, name: str) -> None:
    put(tmp_path, f"{name}/config", "a.txt")

    found = read_bundle_files(tmp_path, "t")

    assert [file.path for file in found.files] == ["a.txt"]
    assert [one.code for one in found.problems] == [codes.FORBIDDEN_FILE]


def test_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)

    assert read_bundle_files(tmp_path, "t").files == ()
    assert codes_of(tmp_path) == [("t/large", codes.TOO_LARGE)]
