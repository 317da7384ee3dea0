"""Where the pages of a project are, for who has to lead a person there."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from covalt_git.serving.server_registry import announced, approval_page, pages_address

ADDRESS = "http://127.0.0.1:8787"


def test_pages_are_found_while_they_are_served_and_no_longer(tmp_path: Path) -> None:
    assert pages_address(tmp_path) is None
    with announced(tmp_path, ADDRESS):
        assert pages_address(tmp_path) == ADDRESS
        assert approval_page(tmp_path, "01a2") == f"{ADDRESS}/approvals/01a2"
    assert pages_address(tmp_path) is None
    assert approval_page(tmp_path, "01a2") is None
    assert [*(tmp_path / "data/serving").iterdir()] == []


def test_of_two_servers_the_one_that_is_left_is_found(tmp_path: Path) -> None:
    with announced(tmp_path, "http://[::1]:8788"):
        with announced(tmp_path, ADDRESS):
            assert pages_address(tmp_path) == ADDRESS
        assert pages_address(tmp_path) == "http://[::1]:8788"


def _serve(root: Path, ready: Any) -> None:
    with announced(root, ADDRESS):
        ready.set()
        signal.pause()


def test_a_server_that_was_killed_is_not_found(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    server = context.Process(target=_serve, args=(tmp_path, ready))
    server.start()
    assert ready.wait(30)
    assert pages_address(tmp_path) == ADDRESS
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    server.join(30)

    assert pages_address(tmp_path) is None
    assert [one.name for one in (tmp_path / "data/serving").iterdir()] == ["127.0.0.1:8787"]
    with announced(tmp_path, ADDRESS):
        assert pages_address(tmp_path) == ADDRESS


@pytest.mark.parametrize(
    "said", ["", "javascript:alert(1)", "http://a:1/?token=x", "http://a b:1", "file:///etc/passwd"]
)
def test_what_is_no_address_is_not_believed(tmp_path: Path, said: str) -> None:
    with announced(tmp_path, ADDRESS):
        (file,) = (tmp_path / "data/serving").iterdir()
        file.write_text(said)

        assert pages_address(tmp_path) is None


def test_a_project_that_cannot_be_written_is_served_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("no folder")

    with announced(tmp_path, ADDRESS):
        assert pages_address(tmp_path) is None


def test_no_secret_is_told(tmp_path: Path) -> None:
    with announced(tmp_path, ADDRESS):
        (file,) = (tmp_path / "data/serving").iterdir()

        assert file.read_text() == ADDRESS
        assert file.stat().st_mode & 0o777 == 0o600
