"""Models of calls: the argument that names what a call works on."""

from typing import Any

import pytest

from covalt_git.models.calls import main_argument


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({}, ""),
        ({"count": 3, "flag": True}, ""),
        ({"content": "<h1>", "path": "a.html"}, "a.html"),
        ({"url": "https://a.example/", "command": "ls"}, "ls"),
        ({"name": "Ann", "other": "x"}, "Ann"),
        ({"path": ["a"], "text": "two\n  lines"}, "two ⏎ lines"),
        ({"path": "", "text": "x" * 201, "title": "short"}, "short"),
        ({"query": {"filters": [], "output": "b.csv", "path": "a.csv"}}, "a.csv"),
        ({"a": {"b": {"path": "too deep"}}}, ""),
        ({"patch": "--- a/notes.md\n+++ b/notes.md\n@@ -1 +1 @@\n-a\n+b\n"}, "notes.md"),
        ({"patch": "--- /dev/null\t2026\n+++ b/new file.md\t2026\n"}, "new file.md"),
        ({"diff": "--- a/old.md\n+++ /dev/null\n"}, "old.md"),
        ({"patch": "".join(f"--- a/{at}\n+++ b/{at}\n" for at in range(5))}, "0, 1, 2, +2"),
        ({"patch": "*** Begin Patch\n*** Update File: a/b.md\n+x\n"}, "a/b.md"),
        ({"patch": "--- a/b/x\n+++ b/b/x\n@@ -1 +1 @@\n--- not a file\n+new\n"}, "b/x"),
        ({"strip": 0, "patch": "x" * 300}, ""),
    ],
)
def test_the_main_argument_names_the_object(args: dict[str, Any], expected: str) -> None:
    assert main_argument("demo:tool", args) == expected


@pytest.mark.parametrize(
    ("tool_id", "expected"),
    [("workspace:run_script", ""), ("registered:mine", ""), ("demo:shell", "tools.a.b()")],
)
def test_the_source_of_a_script_is_not_its_object(tool_id: str, expected: str) -> None:
    assert main_argument(tool_id, {"script": "tools.a.b()"}) == expected
