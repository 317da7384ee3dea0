"""Text Kit: what it finds it replaces, what it compares it patches, and the page shows both as text."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from playwright.sync_api import Page, expect, sync_playwright

from covalt_git.models.renderers import Renderer
from covalt_git.python_reader.source import read_tool
from covalt_git.render.inject_data import inject
from covalt_git.render.plan import plan
from covalt_git.runtime import sandbox
from covalt_git.toolsets.toolset import read_toolset
from covalt_toolset import InvalidToolArguments, describe, invoke, set_context
from tests.api_client import BEARER, HOME, Api, make_project
from tests.browser import Browser, launched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDER = REPOSITORY / "toolsets" / "text-kit"
PAGE = (FOLDER / "artifacts/lines.html").read_text(encoding="utf-8")
TOOLS = ("search", "replace", "diff", "apply_patch", "preview")


@pytest.fixture(scope="module")
def kit(load: Callable[[str, str], ModuleType]) -> ModuleType:
    return load("text-kit", "tools.kit")


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Path]:
    """A workspace beside a file that nobody may touch."""
    (tmp_path / "secret.txt").write_text("secret TODO", encoding="utf-8")
    folder = tmp_path / "workspace"
    folder.mkdir()
    with set_context(workspace=folder, toolset_id="text-kit", toolset_dir=FOLDER):
        yield folder


def save(workspace: Path, **files: str | bytes) -> None:
    """Write files; two underscores of a name are a slash, and one is a dot."""
    for name, content in files.items():
        file = workspace / name.replace("__", "/").replace("_", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)


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


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the tests compare the message
        call()
    return str(caught.value)


# --- the toolset --------------------------------------------------------------------------------


def test_it_is_sound_and_uses_each_of_the_four_renderers() -> None:
    toolset = read_toolset(REPOSITORY, "text-kit")

    assert toolset.problems == ()
    assert {tool.id.name for tool in toolset.tools} == set(TOOLS)
    assert all(tool.examples for tool in toolset.tools)
    assert {tool.renderer.type for tool in toolset.tools if tool.renderer} == {
        *("code", "document", "html", "frame")
    }


def without_bounds(schema: Any) -> Any:
    """Reading leaves the bounds of numbers to the call, which checks them before the tool starts."""
    if isinstance(schema, dict):
        kept = schema.keys() - {"minimum", "maximum"}
        return {key: without_bounds(schema[key]) for key in kept}
    return [without_bounds(each) for each in schema] if isinstance(schema, list) else schema


@pytest.mark.parametrize("function", TOOLS)
def test_reading_a_tool_and_loading_it_agree(kit: ModuleType, function: str) -> None:
    loaded = describe(getattr(kit, function))
    source = read_tool((FOLDER / "tools/kit.py").read_bytes(), function)

    assert (source.name, source.description) == (loaded.name, loaded.description)
    assert source.input_schema == without_bounds(loaded.input_schema)


# --- search -------------------------------------------------------------------------------------


def test_a_search_shows_the_lines_around_a_match_once(kit: ModuleType, workspace: Path) -> None:
    save(workspace, a_txt="1\n2\nxx\n4\nx\n6\n7\n8\n9\nx", b_txt="y\n")

    found = search(kit, "x", context=1)

    assert found["files"] == [
        {
            "path": "a.txt",
            "matches": 4,
            "lines": [
                {"line": 2, "text": "2", "spans": []},
                {"line": 3, "text": "xx", "spans": [[0, 1], [1, 2]]},
                {"line": 4, "text": "4", "spans": []},
                {"line": 5, "text": "x", "spans": [[0, 1]]},
                {"line": 6, "text": "6", "spans": []},
                {"line": 9, "text": "9", "spans": []},
                {"line": 10, "text": "x", "spans": [[0, 1]]},
            ],
        }
    ]
    assert (found["matches"], found["searched"], found["truncated"]) == (4, 2, False)


@pytest.mark.parametrize(
    ("pattern", "args", "lines"),
    [
        pytest.param("a.c", {}, [2], id="plain-text-is-no-expression"),
        pytest.param("a.c", {"regex": True}, [1, 2], id="expression"),
        pytest.param("ABC", {"ignore_case": True}, [1], id="ignore-case"),
        pytest.param("c$", {"regex": True}, [1, 2, 4], id="the-end-is-before-the-line-end"),
        pytest.param("^$", {"regex": True}, [3], id="an-empty-line"),
        pytest.param("c\rd", {}, [5], id="a-carriage-return-ends-no-line"),
    ],
)
def test_a_pattern_is_looked_for_line_by_line(
    kit: ModuleType, workspace: Path, pattern: str, args: dict[str, Any], lines: list[int]
) -> None:
    save(workspace, f="abc\na.c\n\nc\r\nc\rd\u2028d\n")

    found = search(kit, pattern, context=0, **args)

    assert [line["line"] for file in found["files"] for line in file["lines"]] == lines


@pytest.mark.parametrize(
    ("args", "names"),
    [
        pytest.param({}, "a.py docs/b.md src/a.py src/x/a.py src/x/b.ts", id="all"),
        pytest.param({"include": ["*.py"]}, "a.py src/a.py src/x/a.py", id="by-name"),
        pytest.param({"include": ["src/*.py"]}, "src/a.py", id="one-folder"),
        pytest.param({"include": ["src/**/*.py"]}, "src/a.py src/x/a.py", id="any-folders"),
        pytest.param({"include": ["/a.py"]}, "a.py", id="at-the-top"),
        pytest.param({"include": ["x/"]}, "src/x/a.py src/x/b.ts", id="all-of-a-folder"),
        pytest.param({"exclude": ["src/", "*.md"]}, "a.py", id="without"),
        pytest.param({"include": ["*.[pt]?"], "exclude": ["a.*"]}, "src/x/b.ts", id="both"),
        pytest.param({"path": "src/x"}, "src/x/a.py src/x/b.ts", id="a-folder"),
        pytest.param({"path": "docs/b.md"}, "docs/b.md", id="a-file"),
    ],
)
def test_patterns_choose_the_files(
    kit: ModuleType, workspace: Path, args: dict[str, Any], names: str
) -> None:
    save(workspace, a_py="x", src__a_py="x", src__x__a_py="x", src__x__b_ts="x", docs__b_md="x")

    found = search(kit, "x", **args)

    assert [file["path"] for file in found["files"]] == names.split()


def test_many_stars_are_matched_at_once(kit: ModuleType, workspace: Path) -> None:
    save(workspace, **{"__".join("a" * 30) + "_txt": "x"})

    assert search(kit, "x", include=["**/a*a*/" * 12 + "z"])["searched"] == 0


def test_what_is_no_text_is_named_and_skipped(kit: ModuleType, workspace: Path) -> None:
    save(
        workspace,
        binary=b"TODO\0",
        latin=b"TODO\n\xe9\n",
        long=b"TODO\n" + b"x" * (1 << 20) + b"y\n",
        text="TODO",
    )
    (workspace / "link").symlink_to("text")
    (workspace / "out").symlink_to("../secret.txt")

    found = search(kit, "TODO")

    assert [file["path"] for file in found["files"]] == ["text"]
    assert found["skipped"] == [
        {"path": "binary", "reason": "binary"},
        {"path": "latin", "reason": "line 2 is not UTF-8"},
        {"path": "long", "reason": "line 2 is longer than 1 MiB"},
    ]
    assert (found["skipped_total"], found["searched"]) == (3, 1)


def test_a_search_ends_at_its_limit_and_says_so(kit: ModuleType, workspace: Path) -> None:
    save(workspace, a="x\n" * 10, b="x\n")

    assert search(kit, "x", limit=11)["truncated"] is False
    cut = search(kit, "x", limit=4, context=0)

    assert (cut["matches"], cut["truncated"], len(cut["files"])) == (4, True, 1)


def test_of_a_huge_file_no_more_is_read_than_is_shown(kit: ModuleType, workspace: Path) -> None:
    with (workspace / "huge").open("wb") as file:
        file.write(b"x\n" * 4000)
        file.truncate(1 << 40)  # a hole, which nobody could read to its end

    assert search(kit, "x", limit=5, context=0)["matches"] == 5


def test_a_long_line_is_shown_around_its_match(kit: ModuleType, workspace: Path) -> None:
    save(workspace, f="a" * 5000 + "😀MARK" + "b" * 5000)

    (line,) = search(kit, "MARK")["files"][0]["lines"]
    ((start, end),) = line["spans"]

    assert line["text"][start:end] == "MARK"
    assert (line["text"][0], line["text"][-1], len(line["text"])) == ("…", "…", 402)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        pytest.param({"pattern": ""}, "the pattern is empty: give the text to look for"),
        pytest.param(
            {"pattern": "(", "regex": True},
            "'(' is not a regular expression: missing ), unterminated subpattern at position 0",
        ),
        pytest.param(
            {"pattern": "a\nb"},
            "the pattern has more than one line, and lines are looked at one by one",
        ),
        pytest.param(
            {"pattern": "a", "path": "no"}, "there is no file or folder 'no' in the workspace"
        ),
        pytest.param({"pattern": "a", "path": ".."}, "'..' leads out of the workspace"),
        pytest.param(
            {"pattern": "a", "include": ["/"]},
            "'/' is no pattern: write one such as '*.py' or 'src/**'",
        ),
    ],
)
@pytest.mark.usefixtures("workspace")
def test_a_search_that_makes_no_sense_says_why(
    kit: ModuleType, args: dict[str, Any], message: str
) -> None:
    assert refusal(lambda: invoke(kit.search, args)) == message


@pytest.mark.usefixtures("workspace")
def test_numbers_out_of_range_are_refused_before_anything_is_read(kit: ModuleType) -> None:
    for args in ({"context": 11}, {"limit": 0}, {"limit": 1001}):
        with pytest.raises(InvalidToolArguments):
            search(kit, "x", **args)


# --- replace ------------------------------------------------------------------------------------


def test_replacing_changes_what_was_found_and_nothing_else(
    kit: ModuleType, workspace: Path
) -> None:
    save(workspace, a_txt="one\r\ntwo one", b_txt="none", c="\0one", d="\rone\u2028")
    (workspace / "a.txt").chmod(0o755)

    dry = replace(kit, "one", "1", exclude=["d"], dry_run=True)
    before = tree(workspace)
    done = replace(kit, "one", "1", exclude=["d"])

    assert before["a.txt"] == b"one\r\ntwo one"
    assert dry == {**done, "dry_run": True}
    assert (done["replaced"], done["skipped_total"]) == (3, 1)
    assert done["files"] == [{"path": "a.txt", "replaced": 2}, {"path": "b.txt", "replaced": 1}]
    assert tree(workspace) == {**before, "a.txt": b"1\r\ntwo 1", "b.txt": b"n1"}
    assert (workspace / "a.txt").stat().st_mode & 0o777 == 0o755
    assert done["diff"].startswith("--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n-one\r\n")


def test_an_expression_s_groups_stand_in_its_replacement(kit: ModuleType, workspace: Path) -> None:
    save(workspace, f="x = old(1)\ny = old(22)\n")

    replace(kit, r"old\((?P<n>\d+)\)", r"new[\g<n>, \1]", regex=True)

    assert (workspace / "f").read_text() == "x = new[1, 1]\ny = new[22, 22]\n"


def test_plain_text_is_put_in_as_it_is(kit: ModuleType, workspace: Path) -> None:
    save(workspace, f="a.b\n")

    replace(kit, "a.b", r"\1\g<0>\n")

    assert (workspace / "f").read_text() == "\\1\\g<0>\\n\n"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        pytest.param(
            {"expect": 3}, "'a' is there 2 times and not 3: nothing changed", id="another-number"
        ),
        pytest.param(
            {"regex": True, "replacement": r"\1"},
            r"'\\1' is not a replacement: invalid group reference 1 at position 1",
            id="no-such-group",
        ),
        pytest.param(
            {"regex": True, "replacement": r"\g<n>"},
            r"'\\g<n>' is not a replacement: unknown group name 'n'",
            id="no-such-name",
        ),
        pytest.param(
            {"replacement": "x" * (40 << 20)},
            "the changed files have more than 67108864 bytes: name fewer",
            id="grown-beyond-measure",
        ),
    ],
)
def test_a_replacement_that_cannot_be_changes_nothing(
    kit: ModuleType, workspace: Path, args: dict[str, Any], message: str
) -> None:
    save(workspace, f="a\n", g="a\n")

    call = {"pattern": "a", "replacement": "b", **args}

    assert refusal(lambda: invoke(kit.replace, call)) == message
    assert tree(workspace) == {"f": b"a\n", "g": b"a\n"}


def test_where_one_file_cannot_be_written_all_stay_as_they_were(
    workspace: Path, load: Callable[[str, str], ModuleType]
) -> None:
    changes = load("text-kit", "tools.changes")
    save(workspace, a="a", b="b")
    contents = {
        workspace / "a": b"new",
        workspace / "b": None,
        workspace / "made": b"new",
        workspace / "made" / "below": b"a file is no folder",
    }

    told = refusal(lambda: changes.write_all(contents))

    assert told == "'made/below': file exists; nothing changed"
    assert tree(workspace) == {"a": b"a", "b": b"b"}


LINES = st.lists(st.text(st.sampled_from("ab1 \r\u2028\x0b-+@\\"), max_size=4), max_size=12).map(
    "\n".join
)


@given(text=LINES, pattern=st.sampled_from(["a", "b*", "[a-z]", r"\b", "a|1", "^", "$", "\r"]))
@settings(max_examples=80, deadline=None)
def test_what_a_search_counts_is_what_is_replaced(
    kit: ModuleType, tmp_path_factory: pytest.TempPathFactory, text: str, pattern: str
) -> None:
    workspace = tmp_path_factory.mktemp("workspace", numbered=True)
    save(workspace, f=text)
    with set_context(workspace=workspace):
        found = search(kit, pattern, regex=True)
        replaced = replace(kit, pattern, "#", regex=True)

    assert found["matches"] == replaced["replaced"]
    assert (workspace / "f").read_bytes().count(b"\n") == text.count("\n")


# --- diff and patch -----------------------------------------------------------------------------


def compare(kit: ModuleType, **args: Any) -> Any:
    return invoke(kit.diff, args)


def patch(kit: ModuleType, text: str, **args: Any) -> Any:
    return invoke(kit.apply_patch, {"patch": text, **args})


@given(old=LINES, new=LINES, context=st.integers(0, 4))
@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_difference_applied_as_a_patch_gives_the_other_text(
    kit: ModuleType,
    tmp_path_factory: pytest.TempPathFactory,
    old: str,
    new: str,
    context: int,
) -> None:
    workspace = tmp_path_factory.mktemp("workspace", numbered=True)
    save(workspace, f=old)
    with set_context(workspace=workspace):
        made = compare(kit, path="f", text=new, context=context)
        if old == new:
            assert made["diff"] == ""
            return
        told = patch(kit, made["diff"])

    assert (workspace / "f").read_bytes() == new.encode()
    assert (told["added"], told["removed"]) == (made["added"], made["removed"])


@given(old=LINES, new=LINES)
@settings(max_examples=15, deadline=None)
def test_git_applies_our_differences_and_we_apply_those_of_git(
    kit: ModuleType, tmp_path_factory: pytest.TempPathFactory, old: str, new: str
) -> None:
    workspace = tmp_path_factory.mktemp("workspace", numbered=True)
    name = 'a b"\té.txt'
    (workspace / name).write_bytes(old.encode())
    (workspace / "other").write_bytes(new.encode())
    with set_context(workspace=workspace):
        ours = compare(kit, path=name, other="other")["diff"]
    if old == new:
        return
    git = shutil.which("git") or "git"
    options = ("-c", "core.autocrlf=false", "-c", "core.quotePath=true")
    applied = subprocess.run(
        [git, *options, "apply", "--whitespace=nowarn", "-"],
        input=ours.encode(),
        cwd=workspace,
        capture_output=True,
        check=False,
        env={"GIT_CEILING_DIRECTORIES": str(workspace.parent)},
    )
    assert (applied.returncode, applied.stderr) == (0, b"")
    assert (workspace / name).read_bytes() == new.encode()

    before, after = workspace / "a", workspace / "b"
    for folder, content in ((before, old), (after, new)):
        folder.mkdir()
        (folder / name).write_bytes(content.encode())
    theirs = subprocess.run(
        [git, *options, "diff", "--no-index", "--no-renames", "--no-prefix", "a", "b"],
        cwd=workspace,
        capture_output=True,
        check=False,
        env={"GIT_CEILING_DIRECTORIES": str(workspace.parent)},
    ).stdout.decode()
    (workspace / name).write_bytes(old.encode())
    with set_context(workspace=workspace):
        patch(kit, theirs)

    assert (workspace / name).read_bytes() == new.encode()


SEVERAL = """\
From 1234 Mon Sep 17 00:00:00 2001
Subject: [PATCH] three files

---
diff --git a/gone.txt b/gone.txt
deleted file mode 100644
index 5626abf..0000000
--- a/gone.txt
+++ /dev/null
@@ -1 +0,0 @@
-gone
diff --git a/run.sh b/run.sh
new file mode 100755
--- /dev/null
+++ b/run.sh
@@ -0,0 +1,2 @@
+#!/bin/sh
+echo hi
\\ No newline at end of file
--- a/src/a.py\t2026-01-01
+++ b/src/a.py\t2026-01-02
@@ -1,3 +1,4 @@ def first():
 1
-2
+two
+2.5
 3
@@ -7,2 +8 @@
 7
-8
--\x20
2.39.5
"""


def test_a_patch_creates_changes_and_deletes(kit: ModuleType, workspace: Path) -> None:
    save(workspace, gone_txt="gone\n", src__a_py="1\n2\n3\n4\n5\n6\n7\n8\n")
    before = tree(workspace)

    checked = patch(kit, SEVERAL, dry_run=True)
    assert tree(workspace) == before
    (workspace / "all.patch").write_text(SEVERAL)
    told: Any = invoke(kit.apply_patch, {"file": "all.patch"})
    (workspace / "all.patch").unlink()

    assert tree(workspace) == {
        "run.sh": b"#!/bin/sh\necho hi",
        "src/a.py": b"1\ntwo\n2.5\n3\n4\n5\n6\n7\n",
    }
    assert (workspace / "run.sh").stat().st_mode & 0o111
    assert (
        told["files"]
        == checked["files"]
        == [
            {"path": "gone.txt", "change": "deleted", "added": 0, "removed": 1},
            {"path": "run.sh", "change": "created", "added": 2, "removed": 0},
            {"path": "src/a.py", "change": "changed", "added": 2, "removed": 2},
        ]
    )
    assert "| src\\/a\\.py | changed | 2 | 2 |" in told["report"]
    assert told["report"].startswith("# Patch applied\n")
    assert checked["report"].startswith("# Patch applies\n")


def a_patch(*hunks: str, name: str = "f") -> str:
    return f"--- a/{name}\n+++ b/{name}\n" + "".join(hunks)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            a_patch("@@ -2 +2 @@\n-3\n+x\n"),
            "f:2: hunk 1 (line 3 of the patch) does not apply: it expects '3\\n', and there is "
            "'2\\n'; its lines stand at line 3",
            id="moved",
        ),
        pytest.param(
            a_patch("@@ -1 +1 @@\n-z\n+x\n", "@@ -3,2 +3 @@\n 3\n-4\n"),
            "f:1: hunk 1 (line 3 of the patch) does not apply: it expects 'z\\n', and there is "
            "'1\\n'\nf:4: hunk 2 (line 6 of the patch) does not apply: the file ends before '4\\n'",
            id="every-place-is-told",
        ),
        pytest.param(
            a_patch("@@ -3 +3 @@\n-3\n\\ No newline at end of file\n+3\n"),
            "f:3: hunk 1 (line 3 of the patch) does not apply: it expects '3', and there is '3\\n'",
            id="the-end-of-the-file",
        ),
        pytest.param(
            a_patch("@@ -1 +1 @@\n-1\n+x\n\\ No newline at end of file\n"),
            "f:1: hunk 1 (line 3 of the patch) ends the file, and there are lines below",
            id="an-end-in-the-middle",
        ),
        pytest.param(
            a_patch("@@ -2 +2 @@\n-2\n+x\n", "@@ -2 +2 @@\n-2\n+x\n"),
            "f:2: hunk 2 (line 6 of the patch) begins before the one above it ends",
            id="one-upon-the-other",
        ),
        pytest.param(
            a_patch("@@ -2 +7 @@\n-2\n+x\n"),
            "f:2: hunk 1 (line 3 of the patch) says that it becomes line 7, and the hunks above "
            "make it line 2",
            id="a-wrong-new-place",
        ),
        pytest.param(
            a_patch("@@ -9,0 +10 @@\n+x\n"),
            "f:10: hunk 1 (line 3 of the patch) does not apply: the file has 3 lines",
            id="behind-the-end",
        ),
        pytest.param(
            a_patch("@@ -1,2 +1 @@\n-1\n+x\n"),
            "patch:6: a line of the hunk was expected, beginning with ' ', '-' or '+': the header "
            "of line 3 promises 2 old and 1 new ones",
            id="cut-off",
        ),
        pytest.param(
            a_patch("@@ -1 +1 @@\n-1\n+x\n+y\n"),
            "patch:6: this line is behind the end of its hunk: correct the hunk's header",
            id="longer-than-its-header",
        ),
        pytest.param(
            a_patch("@@ -1 +1,2 @@\n-1\n-2\n+x\n+y\n"),
            "patch:3: the hunk has other numbers of lines than its header says",
            id="other-numbers",
        ),
        pytest.param(
            a_patch("@@ one @@\n"),
            "patch:3: this is no hunk header such as '@@ -1,3 +1,4 @@'",
            id="no-header",
        ),
        pytest.param(
            a_patch("@@ -1 +1 @@\n-1\n+x\n", name="no"),
            "patch:1: there is no file 'no' in the workspace",
            id="no-file",
        ),
        pytest.param(
            a_patch("@@ -1 +1 @@\n-1\n+x\n", name="../secret.txt"),
            "patch:1: '../secret.txt' leads out of the workspace",
            id="outside",
        ),
        pytest.param(
            a_patch("@@ -1 +1 @@\n-1\n+x\n", name="bin"),
            "patch:1: 'bin' cannot be patched: binary",
            id="binary",
        ),
        pytest.param(
            "--- a/link\n+++ /dev/null\n@@ -1,3 +0,0 @@\n-1\n-2\n-3\n",
            "patch:1: 'link' leads to 'f' by a link: give that path",
            id="through-a-link",
        ),
        pytest.param(
            "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n",
            "patch:1: 'f' is there already, and the patch creates it",
            id="created-twice",
        ),
        pytest.param(
            "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n",
            "patch:1: 'f' would be deleted, and has lines that the patch has not",
            id="deleted-in-part",
        ),
        pytest.param(
            a_patch("@@ -1 +1 @@\n-1\n+x\n") * 2, "patch:6: 'f' is in the patch twice", id="twice"
        ),
        pytest.param(
            "diff --git a/f b/g\nsimilarity index 100%\nrename from f\nrename to g\n",
            "patch:2: a rename: only changed text is applied",
            id="rename",
        ),
        pytest.param(
            "--- a/f\n+++ b/g\n@@ -1 +1 @@\n-1\n+x\n",
            "patch:2: a rename of 'f' to 'g': only changed text is applied",
            id="rename-by-names",
        ),
        pytest.param(
            "diff --git a/f b/f\nold mode 100644\nnew mode 100755\n",
            "patch:2: a mode: only changed text is applied",
            id="mode",
        ),
        pytest.param(
            "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+f\n",
            "patch:2: a link or a submodule: only changed text is applied",
            id="link",
        ),
        pytest.param(
            "diff --git a/f b/f\nBinary files a/f and b/f differ\n",
            "patch:2: a binary file: only changed text is applied",
            id="binary-patch",
        ),
        pytest.param(
            "diff --git a/e b/e\nnew file mode 100644\nindex 000..e69\n",
            "patch:1: a file without changed lines: only changed text is applied",
            id="empty-file",
        ),
        pytest.param(
            "@@ -1 +1 @@\n-1\n+x\n",
            "patch:1: a hunk without the lines '--- a/file' and '+++ b/file' above it",
            id="no-file-named",
        ),
    ],
)
def test_a_patch_that_does_not_apply_changes_nothing(
    kit: ModuleType, workspace: Path, text: str, message: str
) -> None:
    save(workspace, f="1\n2\n3\n", bin=b"\0", other="o\n")
    (workspace / "link").symlink_to("f")
    before = tree(workspace)

    with_another = a_patch("@@ -1 +1 @@\n-o\n+O\n", name="other")
    told = refusal(lambda: patch(kit, text))

    assert told == message
    refusal(lambda: patch(kit, with_another + text))
    assert tree(workspace) == before
    assert (workspace.parent / "secret.txt").read_text() == "secret TODO"


@pytest.mark.parametrize("text", ["", "please change f\n", "--- a/f\n", "+++ b/f\n-x\n"])
@pytest.mark.usefixtures("workspace")
def test_a_text_without_a_patch_is_none(kit: ModuleType, text: str) -> None:
    assert refusal(lambda: patch(kit, text)) == (
        "patch:1: no '--- a/file', '+++ b/file' and '@@ ... @@' in this patch"
    )


@pytest.mark.parametrize(
    ("tool", "args", "message"),
    [
        ("apply_patch", {}, "give either 'patch', the text, or 'file' that holds it"),
        ("diff", {"path": "f"}, "give either 'other', a file, or 'text' to compare with"),
        ("diff", {"path": "bin", "text": ""}, "'bin' is not read: binary"),
        (
            "diff",
            {"path": "big", "text": ""},
            "'big' is not read: 4194305 bytes are more than 4 MiB",
        ),
        ("diff", {"path": ".", "text": ""}, "'.' is a folder, not a file"),
        ("preview", {"port": 3000}, "there is no file 'index.html' in the workspace"),
    ],
)
def test_a_wrong_argument_says_what_is_wanted(
    kit: ModuleType, workspace: Path, tool: str, args: dict[str, Any], message: str
) -> None:
    save(workspace, f="1\n", bin=b"\0", big=b"x\n" * (2 << 20) + b"x")

    assert refusal(lambda: invoke(getattr(kit, tool), args)) == message


# --- how it is shown ----------------------------------------------------------------------------


def test_a_preview_leads_to_its_port_and_nowhere_else(kit: ModuleType, workspace: Path) -> None:
    name = "a b/?x#@evil.example/é.html"
    (workspace / name).parent.mkdir(parents=True)
    (workspace / name).touch()
    tool = read_toolset(REPOSITORY, "text-kit").tool("text-kit:preview")
    assert tool is not None
    assert tool.renderer is not None
    args = {"port": 3000, "path": name}

    shown = plan(
        Renderer(type="frame", config=tool.renderer.config),
        args=args,
        result=invoke(kit.preview, args),
        chat_id="c1",
    )

    assert shown is not None
    assert shown.error is None
    assert shown.config == {"url": "http://localhost:3000/a%20b/%3Fx%23%40evil.example/%C3%A9.html"}


def test_the_page_needs_nothing_from_elsewhere_and_writes_text_only() -> None:
    assert not re.search(r"\w+://", PAGE)
    assert not re.search(r"<link|<img|<iframe|@import|url\(|\bimport\(|fetch\(|XMLHttp", PAGE)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", PAGE)
    assert PAGE.count("</head>") == 1


def written(folder: Path, data: object) -> Path:
    """Write the page with its data, as the server sends it."""
    page = folder / "page.html"
    page.write_bytes(inject(PAGE.encode(), data))
    return page


HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"


@pytest.mark.parametrize("tool", ["search", "diff"])
def test_a_browser_shows_hostile_lines_as_text(
    browser: Browser, kit: ModuleType, workspace: Path, tmp_path: Path, tool: str
) -> None:
    name = "<img src=x onerror=alert(2)>"
    (workspace / name).write_text(f"😀{HOSTILE}\n-- \n@@ -1 +1 @@\n", encoding="utf-8")
    args: dict[str, Any] = (
        {"pattern": HOSTILE} if tool == "search" else {"path": name, "text": f"{HOSTILE}\n++ \n"}
    )

    shown = browser.document(written(tmp_path, invoke(getattr(kit, tool), args)))
    main = shown.partition("<main")[2].partition("</main>")[0]

    assert "<img" not in main
    assert "<script" not in main
    assert "&lt;img src=x onerror=alert(2)&gt;" in main
    escaped = HOSTILE.replace("<", "&lt;").replace(">", "&gt;")
    assert (f"😀<mark>{escaped}</mark>" if tool == "search" else f">{escaped}<") in main
    if tool == "diff":
        assert len(re.findall(r'class="line (?:added|removed)"', main)) == 5


@pytest.fixture(scope="module")
def opened() -> Iterator[Callable[..., Page]]:
    """Open pages in a browser with a keyboard."""
    with sync_playwright() as driver, launched(driver) as chromium:

        def open_page(file: Path, **options: Any) -> Page:
            page = chromium.new_context(**options).new_page()
            page.goto(file.as_uri())
            return page

        yield open_page


def test_the_keyboard_leads_from_match_to_match(
    opened: Callable[..., Page], kit: ModuleType, workspace: Path, tmp_path: Path
) -> None:
    save(workspace, a="x1\n" + "\n" * 90 + "x2\n", b="x3\n")
    page = opened(written(tmp_path, search(kit, "x")))
    at = page.locator(":focus")

    page.keyboard.press("n")
    expect(at).to_contain_text("x1")
    page.keyboard.press("n")
    expect(at).to_contain_text("x2")
    expect(at).to_be_in_viewport()
    page.locator("summary").last.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("x3")).to_be_hidden()
    page.keyboard.press("n")
    expect(at).to_contain_text("x3")
    expect(page.get_by_role("status")).to_have_text("3 of 3 lines")
    page.get_by_role("button", name="Next").press("Enter")
    expect(at).to_contain_text("x1")
    page.keyboard.press("p")
    expect(at).to_contain_text("x3")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("tool", ["search", "diff"])
def test_everybody_can_read_and_use_the_page(
    opened: Callable[..., Page],
    kit: ModuleType,
    workspace: Path,
    tmp_path: Path,
    tool: str,
    scheme: str,
) -> None:
    save(workspace, f="one\ntwo\nthree\n", g="\0")
    args = {"pattern": "two"} if tool == "search" else {"path": "f", "text": "one\nzwei"}
    data = invoke(getattr(kit, tool), args)
    page = opened(written(tmp_path, data), color_scheme=scheme)
    page.keyboard.press("n")

    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]

    assert [(one["id"], one["nodes"][0]["html"]) for one in found] == []


@pytest.mark.parametrize("width", [375, 1280])
@pytest.mark.parametrize("tool", ["search", "diff"])
def test_no_line_is_wider_than_the_window(
    opened: Callable[..., Page],
    kit: ModuleType,
    workspace: Path,
    tmp_path: Path,
    tool: str,
    width: int,
) -> None:
    save(workspace, **{"d" * 80 + "__f": "x" * 390 + "\n" + "y z" * 100 + "\n"})
    name = "d" * 80 + "/f"
    args: dict[str, Any] = (
        {"pattern": "x" * 390} if tool == "search" else {"path": name, "text": "x" * 300}
    )
    data = invoke(getattr(kit, tool), args)
    page = opened(written(tmp_path, data), viewport={"width": width, "height": 800})

    assert page.evaluate("document.documentElement.scrollWidth") == width


# --- behind the server --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Api:
    """A project with a chat, whose searches may take a second."""
    root = make_project(tmp_path_factory.mktemp("served") / "project")
    manifest = root / "toolsets" / "text-kit" / "toolset.yaml"
    text = manifest.read_text(encoding="utf-8")
    assert text.count("timeout_s: 30") == 1
    manifest.write_text(text.replace("timeout_s: 30", "timeout_s: 1"), encoding="utf-8")
    made = Api.of(root)
    made.post("create_chat", chat_id="c1", title="Texts")
    made.write("index.html", "<h1>colour</h1>\n" + "a" * 60 + "!\n")
    return made


@pytest.mark.parametrize(
    ("tool", "args", "shown"),
    [
        ("search", {"pattern": "colour"}, '<iframe class="artifact"'),
        ("replace", {"pattern": "colour", "replacement": "hue", "dry_run": True}, "+&lt;h1&gt;hue"),
        ("diff", {"path": "index.html", "text": "x"}, '<iframe class="artifact"'),
        (
            "apply_patch",
            {"patch": "--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+1\n"},
            "Patch applied</h",
        ),
        ("preview", {"port": 3000}, 'src="http://localhost:3000/index.html"'),
    ],
)
def test_each_tool_runs_behind_the_walls_and_is_shown(
    api: Api, tool: str, args: dict[str, Any], shown: str
) -> None:
    call = api.call(f"text-kit:{tool}", **args)
    page = api.client().get(f"/chats/c1/calls/{call['id']}", base_url=HOME, headers=BEARER)

    assert (call["status"], call["error"]) == ("success", None)
    assert shown in page.get_data(as_text=True).replace("</span>", "").replace("<span>", "")


@pytest.mark.skipif(
    os.geteuid() != 0 or sandbox.level() == "process", reason="root may read everything itself"
)
def test_what_may_not_be_read_is_named_and_skipped(api: Api) -> None:
    for name, mode in (("closed", 0), ("listed", 0o444)):
        folder = api.workspace / name
        folder.mkdir()
        (folder / "x.txt").write_text("colour")
        folder.chmod(mode)
    (api.workspace / "mute.txt").write_text("colour")
    (api.workspace / "mute.txt").chmod(0)

    found = api.call("text-kit:search", pattern="colour")["result"]

    assert {one["path"]: one["reason"] for one in found["skipped"]} == {
        "closed": "permission denied",
        "listed/x.txt": "permission denied",
        "mute.txt": "permission denied",
    }
    assert found["matches"] == 1


def test_an_expression_without_end_is_stopped_by_the_time_limit(api: Api) -> None:
    failed = api.call("text-kit:search", pattern="(a+)+$", regex=True)
    again = api.call("text-kit:search", pattern="colour")

    assert failed["error"] == "limit_time: it ran longer than 1 s"
    assert again["result"]["matches"] == 1
