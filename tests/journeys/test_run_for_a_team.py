"""The commands of docs/how-to/run-for-a-team.md, from nothing to two nodes."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.redis_server import PROGRAM, require_redis

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "run-for-a-team.md"


def commands() -> str:
    """Return the commands of the example as a script."""
    text = PAGE.read_text(encoding="utf-8")
    example = text.partition("## From nothing to two nodes")[2].partition("\n## ")[0]
    blocks = re.findall(r"(?ms)^```console\n(.*?)^```", example)
    return "\n".join(re.sub(r"(?m)^\$ ", "", block) for block in blocks)


def free_ports(count: int) -> list[str]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [str(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


@pytest.mark.rest
def test_the_commands_of_the_guide_lead_to_two_nodes(tmp_path: Path) -> None:
    require_redis()
    script = commands()
    assert script.count(PROGRAM) == 1
    for port, free in zip(("6379", "8787", "8788"), free_ports(3), strict=True):
        script = script.replace(port, free)
    script = script.replace("/srv/team", str(tmp_path / "team"))
    programs = tmp_path / "bin"
    programs.mkdir()
    ours = programs / "covalt-git"
    ours.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m covalt_git "$@"\n')
    ours.chmod(0o755)
    env = os.environ | {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(sys.path),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        **{
            f"GIT_{who}_{what}": "test@example.com"
            for who in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        },
    }
    with (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as err:
        process = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=tmp_path,
            env=env,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    try:
        status = process.wait(110)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
    printed = (tmp_path / "out").read_text()
    assert status == 0, (tmp_path / "err").read_text()
    assert printed.count('"ready":true') == 2
    assert '"content":"hello"' in printed.replace(" ", "")
    # Both the second node and the git server have the call.
    assert re.search(r"\b[0-9a-f]{12} .*app-builder:read_file success", printed)
    assert re.search(r"(?m)^[0-9a-f]+ tool_run: app-builder:read_file", printed)
