"""Text Kit: search and replace agree, differences apply as patches, and refused calls change no file."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_toolset import invoke, set_context
from tests.examples import examples
from tests.tables import tables

TABLES = tables(__file__)


@pytest.fixture(scope="module")
def kit(load: Callable[[str, str], ModuleType]) -> ModuleType:
    return load("text-kit", "tools.kit")


def save(workspace: Path, files: dict[str, str | bytes]) -> None:
    for name, content in files.items():
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_bytes(content.encode() if isinstance(content, str) else content)


def tree(workspace: Path) -> dict[str, bytes]:
    return {
        path.relative_to(workspace).as_posix(): path.read_bytes()
        for path in workspace.rglob("*")
        if path.is_file()
    }


def search(kit: ModuleType, pattern: str, **args: Any) -> Any:
    return invoke(kit.search, {"pattern": pattern, **args})


def replace(kit: ModuleType, pattern: str, replacement: str, **args: Any) -> Any:
    return invoke(kit.replace, {"pattern": pattern, "replacement": replacement, **args})


def patch(kit: ModuleType, text: str, **args: Any) -> Any:
    return invoke(kit.apply_patch, {"patch": text, **args})


def refusal(tool: Callable[..., object], args: dict[str, Any]) -> str:
    """Return the message with which a call is refused."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the tests compare the message
        invoke(tool, args)
    return str(caught.value)


# Search


def test_search_shows_the_lines_around_a_match_once(kit: ModuleType, workspace: Path) -> None:
    save(workspace, {"a.txt": "1\n2\nxx\n4\nx\n6\n7\n8\n9\nx", "b.txt": "y\n"})

    found = search(kit, "x", context=1)

    (file,) = found["files"]
    assert (file["path"], file["matches"]) == ("a.txt", 4)
    assert [(line["line"], line["text"], line["spans"]) for line in file["lines"]] == [
        (2, "2", []),
        (3, "xx", [[0, 1], [1, 2]]),
        (4, "4", []),
        (5, "x", [[0, 1]]),
        (6, "6", []),
        (9, "9", []),
        (10, "x", [[0, 1]]),
    ]
    assert (found["matches"], found["searched"], found["truncated"]) == (4, 2, False)


@pytest.mark.parametrize(("args", "message"), TABLES["refused_searches"])
@pytest.mark.usefixtures("workspace")
def test_invalid_search_is_refused(kit: ModuleType, args: dict[str, Any], message: str) -> None:
    assert refusal(kit.search, args) == message


# Replace


def test_replace_changes_the_matches_only(kit: ModuleType, workspace: Path) -> None:
    save(
        workspace,
        {"a.txt": "one\r\ntwo one", "b.txt": "none", "c": "\0one", "d": "\rone\u2028"},
    )
    (workspace / "a.txt").chmod(0o755)

    before = tree(workspace)
    dry = replace(kit, "one", "1", exclude=["d"], dry_run=True)
    assert tree(workspace) == before
    done = replace(kit, "one", "1", exclude=["d"])

    assert dry == {**done, "dry_run": True}
    assert (done["replaced"], done["skipped_total"]) == (3, 1)
    assert done["files"] == [{"path": "a.txt", "replaced": 2}, {"path": "b.txt", "replaced": 1}]
    assert tree(workspace) == {**before, "a.txt": b"1\r\ntwo 1", "b.txt": b"n1"}
    assert (workspace / "a.txt").stat().st_mode & 0o777 == 0o755
    assert done["diff"].startswith("--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n-one\r\n")


LINES = st.lists(st.text(st.sampled_from("ab1 \r\u2028\x0b-+@\\"), max_size=4), max_size=12).map(
    "\n".join
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One workspace for all examples of a law."""
    return tmp_path_factory.mktemp("workspace")


# Differences and patches


def git(folder: Path, *command: str, patch: str = "") -> str:
    git = shutil.which("git") or "git"
    done = subprocess.run(
        [git, "-c", "core.autocrlf=false", "-c", "core.quotePath=true", *command],
        input=patch.encode(),
        cwd=folder,
        capture_output=True,
        check=False,
        env={"GIT_CEILING_DIRECTORIES": str(folder.parent)},
    )
    assert done.stderr == b""
    return done.stdout.decode()


@given(old=LINES, new=LINES)
@settings(max_examples=examples(20))
def test_git_applies_our_differences_and_we_apply_those_of_git(
    kit: ModuleType, folder: Path, old: str, new: str
) -> None:
    name = 'a b"\té.txt'
    save(folder, {name: old, "other": new, f"a/{name}": old, f"b/{name}": new})
    if old == new:
        return

    with set_context(workspace=folder):
        ours: Any = invoke(kit.diff, {"path": name, "other": "other"})
        git(folder, "apply", "--whitespace=nowarn", "-", patch=ours["diff"])
        assert (folder / name).read_bytes() == new.encode()
        theirs = git(folder, "diff", "--no-index", "--no-renames", "--no-prefix", "a", "b")
        save(folder, {name: old})
        patch(kit, theirs)

    assert (folder / name).read_bytes() == new.encode()
