"""The law of reading: whatever the files hold, reading ends with problems, changes nothing and starts nothing."""

import functools
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalt_git.toolsets.project_files import read_project
from tests.stress.nasty_toolsets import PIECES, put_toolset, sources
from tests.toolsets.projects import MANIFEST, put_hello

SOURCES = sources()
CHANGES = frozenset(
    {
        *("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.chmod"),
        *("os.truncate", "os.utime", "os.setxattr", "os.system", "os.exec", "os.fork", "os.spawn"),
        *("os.posix_spawn", "os.putenv", "os.kill", "subprocess.Popen", "socket.connect"),
        *("socket.bind", "socket.getaddrinfo", "socket.__new__", "shutil.rmtree"),
        "tempfile.mkstemp",
    }
)
_watched: list[str] | None = None


def _look(event: str, args: tuple[Any, ...]) -> None:
    if _watched is None:
        return
    if event in CHANGES:
        _watched.append(event)
    elif event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+"):
        _watched.append(f"open {args[0]} {args[1]}")
    elif event == "exec":  # covalt-git's code is not in a temporary folder
        name = getattr(args[0], "co_filename", "")
        if name.startswith(tempfile.gettempdir()):
            _watched.append(f"exec {name}")


@functools.cache
def _add_hook() -> None:
    """Add the audit hook once: it cannot be removed, and each event of all later tests calls it."""
    sys.addaudithook(_look)


@contextmanager
def watched() -> Iterator[list[str]]:
    """Record what this process changes and starts."""
    global _watched  # noqa: PLW0603 - the hook has to see it
    _add_hook()
    seen: list[str] = []
    _watched = seen
    try:
        yield seen
    finally:
        _watched = None


def started(events: list[str]) -> list[str]:
    """Return the events that run code of a toolset, start a process or open a connection."""
    starts = re.compile(r"exec|socket|subprocess|os\.(exec|fork|posix_spawn|spawn|system)")
    return [one for one in events if starts.match(one)]


def test_the_audit_hook_sees_writes_deletions_and_code_of_toolsets(tmp_path: Path) -> None:
    (tmp_path / "tool.py").write_text("x = 1\n")
    with watched() as seen:
        (tmp_path / "file").write_text("")
        (tmp_path / "file").unlink()
        exec(compile("x = 1", str(tmp_path / "tool.py"), "exec"), {})

    assert len(seen) == 3


@given(seed=st.integers(0, 2**64))
def test_no_invalid_toolset_breaks_the_reader(seed: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        put_toolset(root / "toolsets" / "hello", Random(seed), SOURCES)
        (root / "covalt.yaml").write_text("version: 1\n")

        with watched() as seen:
            problems = read_project(root).problems
            again = read_project(root).problems

        assert seen == []
        assert problems == again


@pytest.mark.parametrize(
    "name", ["toolset.yaml", "tools/hello.py", "artifacts/a.html", "notes.txt"]
)
@given(content=st.binary(max_size=400) | st.lists(st.sampled_from(PIECES)).map(b"".join))
def test_no_bytes_break_the_reader(name: str, content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        toolset = put_hello(Path(folder), MANIFEST)
        (toolset / name).parent.mkdir(exist_ok=True)
        (toolset / name).write_bytes(content)

        with watched() as seen:
            read_project(Path(folder))

        assert seen == []
