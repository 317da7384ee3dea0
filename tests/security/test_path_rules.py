"""Approval rules about paths: another spelling of a path never asks less than the path itself."""

from __future__ import annotations

import posixpath
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from covalt_toolset import set_context
from tests.examples import examples
from tests.toolsets.conftest import forget_tools, load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

__all__ = ["load"]

FILES = [".env", "a/.env", "a/b/c.txt", "public/page.html", "notes.md", "a/b"]


@st.composite
def spellings(draw: st.DrawFn) -> tuple[str, str]:
    """Return a file, and a path made from it by steps that a file system passes over."""
    file = draw(st.sampled_from(FILES))
    segments = file.split("/")
    extra = st.sampled_from([["."], [""], ["a", ".."], ["a", "b", "..", ".."], ["link", ".."]])
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(segments)))
        segments[at:at] = draw(extra)
    return file, "/".join(segments)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders, and a link that has `..` mean another folder."""
    made = tmp_path_factory.mktemp("rules") / "workspace"
    (made / "a/b").mkdir(parents=True)
    (made / "public").mkdir()
    (made / "link").symlink_to("a/b")
    return made


@pytest.fixture(scope="module")
def files(load: Callable[[str, str], ModuleType]) -> Iterator[ModuleType]:
    yield load("app-builder", "tools.files")
    forget_tools()


@settings(max_examples=examples(400), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(spelled=spellings(), absolute=st.booleans())
def test_app_builder_takes_one_spelling_of_each_file(
    files: ModuleType,
    workspace: Path,
    spelled: tuple[str, str],
    absolute: bool,  # noqa: FBT001 - hypothesis gives it by its name
) -> None:
    """Have a tool of the sample write, read or delete a file by another path than its own."""
    file, path = spelled
    given = f"{workspace}/{path}" if absolute else path
    calls: list[Callable[[], object]] = [
        lambda: files.write_file(workspace, given, "text"),
        lambda: files.read_file(workspace, given),
        lambda: files.edit_file(workspace, given, "text", "more"),
        lambda: files.list_files(workspace, given),
        lambda: delete(files, workspace, given),
    ]
    if given == posixpath.normpath(file):
        return
    for call in calls:
        with pytest.raises(ValueError, match=r"give that path|outside|does not name a file"):
            call()


def delete(files: ModuleType, workspace: Path, path: str) -> object:
    with set_context(workspace=workspace):
        return files.delete_file(path)


@pytest.mark.parametrize("path", ["link", "folder/.env", "folder/new.txt"])
def test_no_tool_of_the_sdk_writes_through_a_link(
    files: ModuleType, tmp_path: Path, path: str
) -> None:
    """Write `.env` by a link to it, whose name no rule knows."""
    (tmp_path / ".env").write_text("KEY=1")
    (tmp_path / "link").symlink_to(".env")
    (tmp_path / "real").mkdir()
    (tmp_path / "folder").symlink_to("real")

    with pytest.raises(ValueError, match="give that path"):
        files.write_file(tmp_path, path, "text")
    with set_context(workspace=tmp_path) as context, pytest.raises(ValueError, match="give that"):
        context.path(path)
    assert (tmp_path / ".env").read_text() == "KEY=1"
