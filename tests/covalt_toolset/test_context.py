"""The context of a call: set, found, forgotten, and its one path that stays inside."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from covalt_toolset import SecretNotGranted, ToolContext, clear_context, get_context, set_context
from covalt_toolset.callbacks import Nobody

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_toolset.callbacks import LogLevel


@pytest.fixture(autouse=True)
def _no_context_is_left() -> Iterator[None]:
    yield
    clear_context()


def _context(workspace: Path) -> ToolContext:
    return ToolContext(
        workspace=workspace,
        chat_id="c1",
        toolset_id="app-builder",
        toolset_dir=workspace.parent,
        call_id="call-1",
        message_id="m1",
        extra={"role": "author"},
    )


def test_get_context_returns_the_context_that_was_set(tmp_path: Path) -> None:
    context = _context(tmp_path)

    set_context(context)

    assert get_context() is context


def test_set_context_needs_only_a_workspace(tmp_path: Path) -> None:
    set_context(workspace=tmp_path)

    context = get_context()
    assert context.workspace == tmp_path
    assert (context.chat_id, context.toolset_id, context.call_id) == ("chat", "toolset", "call")
    assert context.toolset_dir == Path()
    assert context.message_id is None
    assert context.extra == {}


def test_set_context_takes_every_field_by_name(tmp_path: Path) -> None:
    expected = _context(tmp_path)

    set_context(
        workspace=str(tmp_path),
        chat_id="c1",
        toolset_id="app-builder",
        toolset_dir=tmp_path.parent,
        call_id="call-1",
        message_id="m1",
        extra={"role": "author"},
    )

    assert get_context() == expected


def test_set_context_without_anything_says_what_it_needs() -> None:
    with pytest.raises(TypeError, match="needs a ToolContext or workspace="):
        set_context()  # type: ignore[call-overload]


def test_get_context_outside_of_a_call_says_what_a_test_should_do() -> None:
    with pytest.raises(RuntimeError) as caught:
        get_context()

    assert str(caught.value) == (
        "get_context() works only while a tool runs; "
        "in a test, call set_context(workspace=tmp_path) before the tool"
    )


def test_clear_context_ends_the_call(tmp_path: Path) -> None:
    set_context(workspace=tmp_path)

    clear_context()

    with pytest.raises(RuntimeError):
        get_context()


def test_clear_context_twice_is_no_error() -> None:
    clear_context()
    clear_context()


def test_with_statement_puts_back_what_was_before(tmp_path: Path) -> None:
    set_context(workspace=tmp_path, chat_id="outer")

    with set_context(workspace=tmp_path, chat_id="inner") as inner:
        assert get_context() is inner
        assert inner.chat_id == "inner"

    assert get_context().chat_id == "outer"


def test_with_statement_puts_back_after_an_error_too(tmp_path: Path) -> None:
    with pytest.raises(KeyError), set_context(workspace=tmp_path):
        raise KeyError

    with pytest.raises(RuntimeError):
        get_context()


def test_a_context_cannot_be_changed(tmp_path: Path) -> None:
    context = _context(tmp_path)

    with pytest.raises(dataclasses.FrozenInstanceError):
        context.chat_id = "other"  # type: ignore[misc]


def test_tasks_at_the_same_time_each_see_their_own_context(tmp_path: Path) -> None:
    async def work(chat_id: str) -> str:
        set_context(workspace=tmp_path, chat_id=chat_id)
        await asyncio.sleep(0)
        return await asyncio.to_thread(lambda: get_context().chat_id)

    async def both() -> list[str]:
        return [*await asyncio.gather(work("a"), work("b"))]

    assert asyncio.run(both()) == ["a", "b"]


@pytest.mark.parametrize(
    ("relative", "expected"),
    [
        pytest.param("index.html", "index.html", id="a-file"),
        pytest.param("site/css/main.css", "site/css/main.css", id="a-file-in-folders-to-come"),
        pytest.param("site/../index.html", "index.html", id="dots-that-stay-inside"),
        pytest.param(".", "", id="the-workspace-itself"),
        pytest.param(Path("a") / "b", "a/b", id="a-path"),
    ],
)
def test_path_inside_the_workspace_is_returned(
    tmp_path: Path, relative: str | Path, expected: str
) -> None:
    assert _context(tmp_path).path(relative) == tmp_path / expected


@pytest.mark.parametrize(
    ("relative", "problem"),
    [
        pytest.param("/etc/hostname", "is an absolute path", id="absolute"),
        pytest.param("../secret.txt", "leads out of the workspace", id="dots"),
        pytest.param("a/../../secret.txt", "leads out of the workspace", id="dots-later"),
        pytest.param("out/secret.txt", "leads out of the workspace", id="link-to-a-folder"),
        pytest.param("secret", "leads out of the workspace", id="link-to-a-file"),
        pytest.param("inside/../../x", "leads out of the workspace", id="dots-behind-a-link"),
        pytest.param("a\0b", "is not a path that can be followed", id="zero-byte"),
    ],
)
def test_path_that_leads_out_is_refused(tmp_path: Path, relative: str, problem: str) -> None:
    workspace = tmp_path / "workspace"
    (workspace / "folder").mkdir(parents=True)
    (workspace / "out").symlink_to(tmp_path)
    (workspace / "secret").symlink_to(tmp_path / "secret.txt")
    (workspace / "inside").symlink_to(workspace / "folder")

    with pytest.raises(ValueError, match=problem) as caught:
        _context(workspace).path(relative)

    assert str(caught.value).startswith(repr(relative))


def test_path_beside_the_workspace_with_its_name_as_prefix_is_outside(tmp_path: Path) -> None:
    workspace = tmp_path / "work"
    workspace.mkdir()
    (tmp_path / "workshop").mkdir()

    with pytest.raises(ValueError, match="leads out"):
        _context(workspace).path("../workshop/x")


def test_path_by_a_link_that_stays_inside_is_refused_and_the_real_one_named(
    tmp_path: Path,
) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "current").symlink_to("pages")
    context = _context(tmp_path)

    with pytest.raises(ValueError, match="by a link") as caught:
        context.path("current/a.html")

    assert str(caught.value) == (
        "'current/a.html' leads to 'pages/a.html' by a link: give that path"
    )
    assert context.path("current/a.html", follow_links=True) == tmp_path / "pages/a.html"


def test_path_stays_under_a_workspace_that_is_reached_by_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    workspace = tmp_path / "link"
    workspace.symlink_to("real")

    found = _context(workspace).path("a/b.txt")

    assert found.relative_to(workspace) == Path("a/b.txt")


def test_links_in_a_circle_are_refused_or_stay_inside(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")

    try:
        found = _context(tmp_path).path("a/x")
    except ValueError as error:
        assert "not a path that can be followed" in str(error)  # noqa: PT017 - either is right
    else:
        assert found.is_relative_to(tmp_path)


class Heard(Nobody):
    """A listener that remembers."""

    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []
        self.cancelled = False

    def progress(self, done: float, total: float | None, message: str) -> None:
        self.told.append((done, total, message))

    def log(self, level: LogLevel, message: str) -> None:
        self.told.append((level, message))


def test_progress_and_logs_go_to_the_listener(tmp_path: Path) -> None:
    heard = Heard()
    set_context(workspace=tmp_path, listener=heard)
    context = get_context()
    context.progress(1)
    context.progress(1, 2, "half")
    context.log("hello")
    context.log("careful", "warning")

    assert heard.told == [(1, None, ""), (1, 2, "half"), ("info", "hello"), ("warning", "careful")]
    assert not context.cancelled
    heard.cancelled = True
    assert context.cancelled


def test_without_a_listener_nobody_is_told_and_nothing_is_cancelled(tmp_path: Path) -> None:
    set_context(workspace=tmp_path)
    context = get_context()
    context.progress(1, 2)
    context.log("hello")

    assert not context.cancelled


def test_secrets_are_a_mapping_that_does_not_show_its_values(tmp_path: Path) -> None:
    set_context(workspace=tmp_path, secrets={"WEATHER_KEY": "sk-canary"})
    context = get_context()

    assert context.secrets["WEATHER_KEY"] == "sk-canary"
    assert (list(context.secrets), len(context.secrets)) == (["WEATHER_KEY"], 1)
    assert "WEATHER_KEY" in context.secrets
    assert context.secrets.get("OTHER") is None
    assert "sk-canary" not in f"{context}{context.secrets!r}{context.secrets}"


@pytest.mark.parametrize(
    ("given", "words"),
    [({}, "it was given none"), ({"A": "1", "B": "2"}, "it was given A, B")],
)
def test_a_secret_that_was_not_given_is_told_by_name(
    tmp_path: Path, given: dict[str, str], words: str
) -> None:
    set_context(workspace=tmp_path, secrets=given)

    with pytest.raises(SecretNotGranted) as caught:
        get_context().secrets["WEATHER_KEY"]

    assert isinstance(caught.value, KeyError)
    assert str(caught.value) == (
        f"the tool has no secret 'WEATHER_KEY', {words}; toolset.yaml names it under 'secrets', "
        "the project grants it (covalt-git grant add TOOLSET secret WEATHER_KEY), and somebody sets it"
    )
