"""``make run``: the sample project, and the server that shows it."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from covalt_git.toolsets.new_project import create_project
from tests.command import REPOSITORY
from tests.operations_client import Operations

URL = re.compile(r"http://127\.0\.0\.1:\d+/")


@pytest.mark.rest
def test_make_run_ends_its_server_when_it_is_ended(tmp_path: Path) -> None:
    create_project(tmp_path / "sample")
    operate = Operations(tmp_path / "sample")
    # With its chat, the sample is not worked in again: ten commands that docs/sample.sh runs on a new one.
    operate("create_chat", chat_id="weather")
    operate.commit("weather", **{"report.md": "Rain"})
    operate("create_branch", chat_id="weather", name="idea")
    with (tmp_path / "sample/covalt.yaml").open("a", encoding="utf-8") as config:
        config.write("server: {port: 0}\n")
    environment = sys.prefix
    running = subprocess.Popen(
        [
            *("make", "run", f"VENV={environment}", f"SAMPLE={tmp_path / 'sample'}"),
            *("-o", f"{environment}/.runs"),  # the environment of this test is complete
        ],
        cwd=REPOSITORY,
        env={**os.environ, "MAKEFLAGS": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert running.stdout is not None
    printed = ""
    for line in running.stdout:
        printed += line
        if URL.search(line):
            break
    running.terminate()

    try:  # the server has the pipe too, which reaches its end when the last process has ended
        rest, _ = running.communicate(timeout=30)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)

    assert URL.search(printed), printed
    assert "stopped" in rest
