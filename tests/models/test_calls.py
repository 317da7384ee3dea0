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
        ({"path": ["a"], "text": "two\n  lines"}, "two lines"),
        ({"path": "", "text": "x" * 201, "title": "short"}, "short"),
        ({"query": {"filters": [], "output": "b.csv", "path": "a.csv"}}, "a.csv"),
        ({"a": {"b": {"path": "too deep"}}}, ""),
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
