"""The context of a call: how it is set, found and cleared, its paths, its events and its secrets."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from covalt_toolset import SecretNotGranted, ToolContext, clear_context, get_context, set_context


@pytest.fixture(autouse=True)
def _no_context_is_left() -> Iterator[None]:
    yield
    clear_context()


FIELDS: dict[str, Any] = {
    "chat_id": "c1",
    "toolset_id": "app-builder",
    "toolset_dir": Path("/toolsets/app-builder"),
    "call_id": "call-1",
    "message_id": "m1",
    "extra": {"role": "author"},
}


def test_without_a_context_the_error_says_how_a_test_sets_one(tmp_path: Path) -> None:
    set_context(workspace=tmp_path)
    clear_context()
    clear_context()

    with pytest.raises(RuntimeError, match=r"set_context\(workspace=tmp_path\)"):
        get_context()


def test_with_statement_restores_the_previous_context(tmp_path: Path) -> None:
    set_context(workspace=tmp_path, chat_id="outer")

    with set_context(workspace=tmp_path, chat_id="inner") as inner:
        assert get_context() is inner
    with pytest.raises(KeyError), set_context(workspace=tmp_path, chat_id="failing"):
        raise KeyError

    assert get_context().chat_id == "outer"


def test_concurrent_tasks_each_see_their_own_context(tmp_path: Path) -> None:
    async def work(chat_id: str) -> str:
        set_context(workspace=tmp_path, chat_id=chat_id)
        await asyncio.sleep(0)
        return await asyncio.to_thread(lambda: get_context().chat_id)

    async def both() -> list[str]:
        return [*await asyncio.gather(work("a"), work("b"))]

    assert asyncio.run(both()) == ["a", "b"]


# Paths


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace with links, and files and folders outside of it."""
    workspace = tmp_path / "work"
    (workspace / "folder").mkdir(parents=True)
    (workspace / "out").symlink_to(tmp_path)
    (workspace / "secret").symlink_to(tmp_path / "secret.txt")
    (workspace / "inside").symlink_to("folder")
    (workspace / "loop").symlink_to("loop")
    (tmp_path / "workshop").mkdir()
    return workspace


@pytest.mark.parametrize(
    ("relative", "expected"),
    [
        pytest.param("index.html", "index.html", id="a-file"),
        pytest.param("site/css/main.css", "site/css/main.css", id="a-file-in-missing-folders"),
        pytest.param("site/../index.html", "index.html", id="dots-that-stay-inside"),
        pytest.param(".", "", id="the-workspace-itself"),
        pytest.param(Path("a") / "b", "a/b", id="a-path"),
    ],
)
def test_path_inside_the_workspace_is_returned(
    workspace: Path, relative: str | Path, expected: str
) -> None:
    linked = workspace.parent / "link"
    linked.symlink_to(workspace)

    for folder in (workspace, linked):
        assert ToolContext(workspace=folder, **FIELDS).path(relative) == folder / expected


@pytest.mark.parametrize(
    ("relative", "problem"),
    [
        pytest.param("/etc/hostname", "is absolute", id="absolute"),
        pytest.param("../secret.txt", "is outside of the workspace", id="dots"),
        pytest.param("a/../../secret.txt", "is outside of the workspace", id="dots-later"),
        pytest.param("out/secret.txt", "is outside of the workspace", id="link-to-a-folder"),
        pytest.param("secret", "is outside of the workspace", id="link-to-a-file"),
        pytest.param("inside/../../x", "is outside of the workspace", id="dots-behind-a-link"),
        pytest.param("../workshop/x", "is outside of the workspace", id="name-with-its-prefix"),
        pytest.param("inside/a", "a link to 'folder/a'", id="link-that-stays-inside"),
        pytest.param("a\0b", "is not a valid path", id="zero-byte"),
    ],
)
def test_other_paths_are_refused(workspace: Path, relative: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as caught:
        ToolContext(workspace=workspace, **FIELDS).path(relative)

    assert str(caught.value).startswith(repr(relative))


# Secrets


def test_secrets_are_a_mapping_that_does_not_show_its_values(tmp_path: Path) -> None:
    set_context(workspace=tmp_path, secrets={"WEATHER_KEY": "sk-canary"})
    context = get_context()

    assert dict(context.secrets) == {"WEATHER_KEY": "sk-canary"}
    assert "WEATHER_KEY" in context.secrets
    assert len(context.secrets) == 1
    assert context.secrets.get("OTHER") is None
    assert "sk-canary" not in f"{context}{context.secrets!r}{context.secrets}"


@pytest.mark.parametrize("secrets", [{}, {"A": "1", "B": "2"}])
def test_missing_secret_is_named_with_the_granted_ones(
    tmp_path: Path, secrets: dict[str, str]
) -> None:
    set_context(workspace=tmp_path, secrets=secrets)

    with pytest.raises(SecretNotGranted) as caught:
        get_context().secrets["WEATHER_KEY"]

    assert isinstance(caught.value, KeyError)
    assert "no secret 'WEATHER_KEY'" in str(caught.value)
    assert ("available: A, B" in str(caught.value)) is bool(secrets)
