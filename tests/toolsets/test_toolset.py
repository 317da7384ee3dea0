"""Reading toolsets: valid, broken and linked ones."""

import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from covalt_git.manifests.toolset_files import read_bundle, toolset_ids
from covalt_git.problems import codes
from covalt_git.system.file_cache import FileCache
from covalt_git.toolsets import toolset as reader
from covalt_git.toolsets.project_files import read_project
from covalt_git.toolsets.toolset import read_toolset
from tests.toolsets.projects import HEAD, MANIFEST, put, put_hello


@pytest.mark.parametrize(
    "value", ["..", "../chats", "/home/user", ".", "~", "hello/..", "hello\\..", "COM1", "'a b'"]
)
def test_an_id_is_never_a_path(tmp_path: Path, value: str) -> None:
    put_hello(tmp_path, MANIFEST.replace("id: hello", f"id: {value}", 1))

    toolset = read_toolset(tmp_path, "hello")

    assert [(one.line, one.code) for one in toolset.problems] == [
        (4, codes.BAD_VALUE if value == "~" else codes.BAD_ID)
    ]
    assert toolset.tools == ()
    assert toolset.folder == tmp_path / "toolsets" / "hello"


@pytest.mark.parametrize(
    "text",
    [
        *("", "# only a comment\n", "null\n", "[]\n", "hello\n", "5\n", "{}\n", "\x00"),
        *("[" * 5_000, "a: &a [*a]\n", f"{HEAD}\ntools: [null]\n"),
        f"{HEAD}\ntools: [{{id: null, entrypoint: 5}}]\n",
        HEAD.replace("id: hello", "id: {a: b}"),
    ],
    ids=lambda text: repr(text[-20:]),
)
def test_a_broken_manifest_is_a_toolset_with_problems_and_without_tools(
    tmp_path: Path, text: str
) -> None:
    put_hello(tmp_path, text)

    toolset = read_toolset(tmp_path, "hello")

    assert not toolset.sound
    assert toolset.tools == ()
    assert toolset.id == "hello"


def test_toolsets_are_the_folders_and_links_to_them_but_hidden_and_reserved_ones(
    tmp_path: Path,
) -> None:
    for name in ("b", "a", "state", "locks", ".git", ".b.tmp", "__pycache__", "Bad Name"):
        (tmp_path / name).mkdir()
    (tmp_path / "file").write_text("")
    targets = {"folder": "a", "circle": "circle", "nowhere": "c", "text": "file", "odd": "file/x"}
    for name, target in targets.items():
        (tmp_path / name).symlink_to(target)

    assert toolset_ids(tmp_path) == ["Bad Name", "a", "b", "folder"]
    assert toolset_ids(tmp_path / "nowhere-at-all") == []


def test_a_linked_toolset_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    put_hello(elsewhere)
    (tmp_path / "toolsets").mkdir()
    (tmp_path / "toolsets" / "hello").symlink_to(elsewhere / "toolsets" / "hello")

    toolset = read_toolset(tmp_path, "hello")

    assert [(one.path, one.code) for one in toolset.problems] == [("toolsets/hello", "CG305")]
    assert (toolset.manifest, toolset.files.files, toolset.tools) == (None, (), ())


@pytest.mark.skipif(sys.platform == "darwin", reason="its file system has UTF-8 names only")
def test_a_folder_with_a_name_that_is_not_utf_8_is_reported(tmp_path: Path) -> None:
    put_hello(tmp_path)
    os.mkdir(os.fsencode(tmp_path / "toolsets") + b"/caf\xe9")  # noqa: PTH102 - a name in bytes

    reading = read_project(tmp_path)

    assert [one.id for one in reading.toolsets] == ["hello"]
    assert [(one.path, one.code) for one in reading.problems] == [("toolsets/caf\\xe9", "CG305")]


def test_the_digest_covers_names_contents_and_the_executable_bit(tmp_path: Path) -> None:
    toolset = put_hello(tmp_path)
    first = read_toolset(tmp_path, "hello").digest
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", first)

    (toolset / "tools" / "hello.py").touch()
    (toolset / "tools" / "__pycache__").mkdir(exist_ok=True)
    (toolset / "tools" / "__pycache__" / "hello.cpython-311.pyc").write_bytes(b"x")
    put(tmp_path, "state/hello.yaml", "enabled: false\n")
    assert read_toolset(tmp_path, "hello").digest == first

    (toolset / "tools" / "hello.py").chmod(0o755)
    executable = read_toolset(tmp_path, "hello").digest
    (toolset / "notes.txt").write_text("")
    renamed = read_toolset(tmp_path, "hello").digest
    assert len({first, executable, renamed}) == 3


def test_a_toolset_with_a_broken_state_file_is_disabled(tmp_path: Path) -> None:
    put_hello(tmp_path)
    put(tmp_path, "state/hello.yaml", "enabled: maybe\n")

    toolset = read_toolset(tmp_path, "hello")

    assert not toolset.sound
    assert not toolset.enabled
    assert not any(tool.enabled for tool in toolset.tools)


def test_a_decision_does_not_have_the_files_parsed_again(tmp_path: Path) -> None:
    put_hello(tmp_path)
    before = read_toolset(tmp_path, "hello")

    put(tmp_path, "state/hello.yaml", "enabled: false\n")
    after = read_toolset(tmp_path, "hello")

    assert (before.enabled, after.enabled) == (True, False)
    assert after.manifest is before.manifest


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("hello/toolset.yaml", MANIFEST.replace("Hello", "Good morning")),
        ("hello/tools/hello.py", "def greet(\n"),
        ("hello/tools/hello.py", "import tools.absent\n\ndef hello(name: str) -> str:\n    return name\n"),
        ("hello/toolset.schemas.yaml", "version: 2\n"),
        ("hello/tools/json.py", ""),
        ("hello/artifacts/page.html", "<script src=https://example.com></script>"),
        ("hello/skills/a/SKILL.md", "no name"),
        ("hello/notes.txt", "password: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b"),
        ("state/hello.yaml", "enabled: true\ntool_overrides:\n- {tool_id: absent, name: A}\n"),
    ],
)  # fmt: skip
def test_after_a_change_a_toolset_is_as_if_it_was_read_for_the_first_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, text: str
) -> None:
    put_hello(tmp_path)
    unchanged = read_toolset(tmp_path, "hello")
    put(tmp_path, path, text)

    remembered = read_toolset(tmp_path, "hello")
    monkeypatch.setattr(reader, "_OWN_FILES", FileCache())
    first = read_toolset(tmp_path, "hello")

    assert (unchanged.problems, unchanged.tools) != (first.problems, first.tools)
    for name in ("problems", "tools", "sources", "skills", "digest", "manifest", "state"):
        assert getattr(remembered, name) == getattr(first, name)


def test_what_a_file_says_after_its_digest_is_not_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program could show another content to the checks than to the digest."""
    toolset = put_hello(tmp_path)
    for number in range(5):  # so many bytes that the page is not in memory
        (toolset / f"a{number}.bin").write_bytes(bytes(4 << 20))
    page = toolset / "artifacts/page.html"
    page.parent.mkdir()
    bad, good = "<script src=https://e.example/a.js></script>", "<p>"
    page.write_text(bad)
    problems = read_toolset(tmp_path, "hello").problems

    def exchanged(folder: Path, display_path: str) -> Any:
        page.write_text(bad)
        answer = read_bundle(folder, display_path)
        page.write_text(good)
        return answer

    monkeypatch.setattr(reader, "read_bundle", exchanged)
    assert read_toolset(tmp_path, "hello").problems != problems
    monkeypatch.setattr(reader, "read_bundle", read_bundle)
    page.write_text(bad)

    assert read_toolset(tmp_path, "hello").problems == problems
