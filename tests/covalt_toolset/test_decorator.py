"""The decorator ``@tool``: what it says, what it takes from the function, and what importing costs."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from covalt_toolset import ToolMetadata, get_tool_metadata, is_tool, tool

SAID: dict[str, Any] = {
    "name": "Write File",
    "description": "Write it",
    "requires_confirmation": True,
    "category": "files",
}


def new_function() -> Callable[..., str]:
    def greet(path: str) -> str:
        """Say hello.

        Kindly.

        Args:
            path: where to say it.

        Returns:
            A greeting.
        """
        return path

    return greet


@pytest.mark.requirement("covalt-4.2.metadata")
@pytest.mark.parametrize(
    ("decorator", "metadata"),
    [
        pytest.param(tool, ("greet", "Say hello.\n\nKindly.", False, None), id="bare"),
        pytest.param(tool(), ("greet", "Say hello.\n\nKindly.", False, None), id="called"),
        pytest.param(tool("Greet"), ("Greet", "Say hello.\n\nKindly.", False, None), id="name"),
        pytest.param(tool(description=""), ("greet", "", False, None), id="empty-description"),
        pytest.param(tool(**SAID), ("Write File", "Write it", True, "files"), id="everything"),
    ],
)
def test_decorator_marks_the_function_and_returns_it(
    decorator: Any, metadata: tuple[str, str, bool, str | None]
) -> None:
    function = new_function()

    assert decorator(function) is function
    assert function("a") == "a"
    assert is_tool(function)
    assert get_tool_metadata(function) == ToolMetadata(*metadata)
    assert set(vars(function)) == {"__tool_metadata__"}


def test_importing_the_package_does_not_import_slow_libraries() -> None:
    program = "import sys, covalt_toolset; print(*sys.modules)"

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert not {"asyncio", "docstring_parser", "covalt_git"} & set(done.stdout.split())
