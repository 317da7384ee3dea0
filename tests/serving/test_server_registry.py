"""The URL of the pages of a project, for a process that has to lead a user there."""

import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from covalt_git.serving.server_registry import approval_url, pages_url, register

URL = "http://127.0.0.1:8787"


def test_the_pages_are_found_while_they_are_served(tmp_path: Path) -> None:
    assert pages_url(tmp_path) is None
    with register(tmp_path, URL):
        assert pages_url(tmp_path) == URL
        assert approval_url(tmp_path, "01a2") == f"{URL}/approvals/01a2"
        (file,) = (tmp_path / "data/serving").iterdir()
        assert file.read_text() == URL  # and no secret
        assert file.stat().st_mode & 0o777 == 0o600
    assert pages_url(tmp_path) is None
    assert approval_url(tmp_path, "01a2") is None
    assert [*(tmp_path / "data/serving").iterdir()] == []


def _serve(root: Path, ready: Any) -> None:
    with register(root, URL):
        ready.set()
        signal.pause()


def test_a_killed_server_is_not_found(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    server = context.Process(target=_serve, args=(tmp_path, ready))
    server.start()
    assert ready.wait(30)
    assert pages_url(tmp_path) == URL
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    server.join(30)

    assert pages_url(tmp_path) is None
    with register(tmp_path, URL):
        assert pages_url(tmp_path) == URL


@pytest.mark.parametrize(
    "text", ["", "javascript:alert(1)", "http://a:1/?token=x", "http://a b:1", "file:///etc/passwd"]
)
def test_text_that_is_no_url_of_a_server_is_ignored(tmp_path: Path, text: str) -> None:
    with register(tmp_path, URL):
        (file,) = (tmp_path / "data/serving").iterdir()
        file.write_text(text)

        assert pages_url(tmp_path) is None
