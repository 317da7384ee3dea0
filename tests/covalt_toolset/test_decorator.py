"""The ``@tool`` mark: three ways to write it, what it takes from the function, what importing costs."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest

import covalt_toolset
from covalt_toolset import ToolMetadata, get_tool_metadata, is_tool, tool


def plain(path: str) -> str:
    """Say hello to a path.

    It stands in the workspace.

    Args:
        path: where it is.

    Returns:
        The path again.
    """
    return path


def undocumented(path: str) -> str:
    return path


def _fresh() -> object:
    def made(path: str) -> str:
        """Say hello."""
        return path

    return made


def test_bare_mark_takes_name_and_docstring_of_the_function() -> None:
    @tool
    def greet() -> str:
        """Say hello.

        Kindly.

        Returns:
            A greeting.
        """
        return "hello"

    assert get_tool_metadata(greet) == ToolMetadata(
        name="greet",
        description="Say hello.\n\nKindly.",
        requires_confirmation=False,
        category=None,
    )


def test_called_mark_without_arguments_is_the_bare_mark() -> None:
    @tool()
    def greet() -> str:
        """Say hello."""
        return "hello"

    assert get_tool_metadata(greet) == ToolMetadata("greet", "Say hello.", False, None)


def test_called_mark_says_everything_itself() -> None:
    @tool(
        name="Write File",
        description="Write it",
        requires_confirmation=True,
        category="files",
    )
    def write_file() -> None:
        """Not shown."""

    assert get_tool_metadata(write_file) == ToolMetadata("Write File", "Write it", True, "files")


def test_name_may_be_given_by_position() -> None:
    @tool("Write File")
    def write_file() -> None:
        pass

    metadata = get_tool_metadata(write_file)
    assert metadata is not None
    assert metadata.name == "Write File"


@pytest.mark.parametrize(
    "mark",
    [pytest.param(tool, id="bare"), pytest.param(tool(), id="called")],
)
def test_mark_returns_the_function_itself(mark: object) -> None:
    function = _fresh()
    assert callable(mark)

    assert mark(function) is function
    assert callable(function)
    assert function("a") == "a"


def test_mark_is_one_attribute_of_the_function() -> None:
    function = _fresh()
    assert callable(function)

    tool(function)

    assert set(vars(function)) == {"__tool_metadata__"}


def test_an_empty_description_is_not_replaced_by_the_docstring() -> None:
    @tool(description="")
    def greet() -> str:
        """Say hello."""
        return "hello"

    metadata = get_tool_metadata(greet)
    assert metadata is not None
    assert metadata.description == ""


def test_function_without_docstring_has_an_empty_description() -> None:
    assert get_tool_metadata(tool(undocumented)) == ToolMetadata("undocumented", "", False, None)


def test_plain_function_has_no_mark() -> None:
    assert get_tool_metadata(plain) is None
    assert not is_tool(plain)


def test_marked_function_is_a_tool() -> None:
    @tool
    def greet() -> None: ...

    assert is_tool(greet)


def test_mark_cannot_be_changed() -> None:
    metadata = ToolMetadata("a", "", False, None)

    with pytest.raises(dataclasses.FrozenInstanceError):
        metadata.name = "b"  # type: ignore[misc]


def test_every_public_name_is_there() -> None:
    assert sorted(covalt_toolset.__all__) == covalt_toolset.__all__
    assert all(hasattr(covalt_toolset, name) for name in covalt_toolset.__all__)


@pytest.mark.parametrize("library", ["asyncio", "docstring_parser", "covalt_git"])
def test_importing_the_package_does_not_import(library: str) -> None:
    program = f"import sys, covalt_toolset; print({library!r} in sys.modules)"

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stdout == "False\n"
