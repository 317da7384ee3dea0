"""Approval rules about paths: another spelling of a path never asks less than the path itself."""

import json
import posixpath
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from covalt_git.access import confirmation
from covalt_git.calls.engine import CallRequest
from covalt_git.models.project_config import ProjectConfig
from covalt_git.models.tool import Tool
from covalt_git.project import Project
from covalt_git.toolsets.new_project import create_project
from covalt_toolset import set_context
from tests.sample_toolsets.conftest import forget_tools, load

__all__ = ["load"]

SPELLINGS = [".env/", ".env/.", ".env//", "./.env", "none/../.env", "a/../.env/.", "a//../.env"]
PATTERNS = ["*.env", ".env", "a/*", "public/*", "*/b/*", "*", "a/.env", "public"]
FILES = [".env", "a/.env", "a/b/c.txt", "public/page.html", "notes.md", "a/b"]


def config(*rules: tuple[dict[str, Any], bool]) -> ProjectConfig:
    approvals = [{"pattern": "**", "when": {"args": args}, "require": ask} for args, ask in rules]
    return ProjectConfig.model_validate({"version": 1, "approvals": approvals})


def asks(config: ProjectConfig, path: object, *, by_itself: bool = False) -> bool:
    tool = Tool(
        tool_id="a:x",
        toolset_id="a",
        name="x",
        input_schema={},
        confirmation=("toolset",) if by_itself else (),
    )
    return bool(confirmation(config, tool, {"path": path}))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project as ``init`` makes it, with one chat."""
    root = tmp_path_factory.mktemp("rules") / "project"
    create_project(root)
    project = Project.open(root)
    project.chats.new("c1")
    return project


@pytest.mark.parametrize("path", SPELLINGS)
def test_another_spelling_of_env_waits_for_approval(project: Project, path: str) -> None:
    """Write `.env` past the `*.env` rule that `init` writes, by another spelling of its path."""
    with project.chats.open("c1") as chat:
        request = CallRequest("app-builder:write_file", {"path": path, "content": "KEY=1"})
        outcome = project.engine().call(chat, request)

    assert outcome.call.status == "pending"
    assert not (chat.workspace / ".env").exists()


def test_the_prefix_of_a_workspace_file_is_another_spelling() -> None:
    """HTTP tools read the file of ``workspace:.env`` and of ``.env``."""
    assert asks(config(({"path": ".env"}, True)), "workspace:.env")
    assert asks(config(({"path": "secrets/*"}, True)), "workspace:./secrets/key")
    assert asks(config(({"path": "public/*"}, False)), "workspace:public/a", by_itself=True)
    assert asks(config(({"path": "workspace:*"}, False)), "secrets", by_itself=True)
    assert not asks(
        config(({"path": "workspace:public/*"}, False)), "workspace:public/a", by_itself=True
    )


@pytest.mark.parametrize("value", [[".env"], {"to": ".env"}, [{"to": [".env"]}]])
def test_path_in_a_nested_value_is_compared_in_each_spelling(value: Any) -> None:
    """Hide another spelling in a list or an object that a rule compares."""
    other = json.loads(json.dumps(value).replace(".env", "a/../.env/"))

    assert asks(config(({"path": value}, True)), other)
    assert not asks(config(({"path": value}, False)), value, by_itself=True)
    assert asks(config(({"path": value}, False)), other, by_itself=True)


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


RULES = st.lists(
    st.tuples(st.sampled_from(PATTERNS).map(lambda one: {"path": one}), st.booleans()), max_size=4
)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders, and a link that has `..` mean another folder."""
    made = tmp_path_factory.mktemp("rules") / "workspace"
    (made / "a/b").mkdir(parents=True)
    (made / "public").mkdir()
    (made / "link").symlink_to("a/b")
    return made


@given(spelled=spellings(), rules=RULES, by_itself=st.booleans())
def test_no_spelling_that_ctx_path_follows_asks_less(
    workspace: Path,
    spelled: tuple[str, str],
    rules: list[tuple[dict[str, Any], bool]],
    by_itself: bool,  # noqa: FBT001 - hypothesis gives it by its name
) -> None:
    """Find any spelling that `ctx.path()` takes for a file and that the rules ask less about."""
    _, path = spelled
    with set_context(workspace=workspace) as context:
        try:
            found = context.path(path)
        except ValueError:
            return
    file = found.relative_to(workspace).as_posix()
    rules_of = config(*rules)

    assert asks(rules_of, path, by_itself=by_itself) >= asks(rules_of, file, by_itself=by_itself)


@pytest.fixture(scope="module")
def files(load: Callable[[str, str], ModuleType]) -> Iterator[ModuleType]:
    yield load("app-builder", "tools.files")
    forget_tools()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
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
    with (
        set_context(workspace=tmp_path) as context,
        pytest.raises(ValueError, match="use that path"),
    ):
        context.path(path)
    assert (tmp_path / ".env").read_text() == "KEY=1"
