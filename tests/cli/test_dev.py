"""``covalt-git dev`` on a terminal: every save is checked, and its words are those of ``validate``."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

MANIFEST = """\
id: demo
name: Demo
version: "1"
tools:
  - {id: add, entrypoint: tools:add}
"""
PROGRAM = [sys.executable, "-m", "covalt_git"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "toolsets/demo").mkdir(parents=True)
    (folder / "covalt.yaml").write_text("version: 1\n", encoding="utf-8")
    save(folder, MANIFEST)
    tools = "def add(a: int, b: int) -> int:\n    return a + b\n"
    (folder / "toolsets/demo/tools.py").write_text(tools, encoding="utf-8")
    return folder


def save(root: Path, text: str) -> None:
    (root / "toolsets/demo/toolset.yaml").write_text(text, encoding="utf-8")


class Following:
    """The command as it runs, and what it prints."""

    def __init__(self, program: subprocess.Popen[str]) -> None:
        self.program = program

    def line(self) -> str:
        assert self.program.stdout is not None
        line = self.program.stdout.readline()
        assert line, self.program.communicate()[1]
        return line.rstrip("\n")

    def until(self, end: str) -> list[str]:
        """Return the lines up to the one that ends so."""
        lines = [self.line()]
        while not lines[-1].endswith(end):
            lines.append(self.line())
        return lines

    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.line())
        return found

    def end(self) -> str:
        self.program.send_signal(signal.SIGINT)
        return self.program.communicate(timeout=60)[1]


@contextmanager
def followed(root: Path, *args: str) -> Iterator[Following]:
    with subprocess.Popen(
        [*PROGRAM, "dev", "--port", "0", *args],
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        try:
            yield Following(program)
        finally:
            program.kill()


def validated(root: Path) -> str:
    done = subprocess.run(
        [*PROGRAM, "validate"], cwd=root, capture_output=True, text=True, check=False
    )
    return done.stdout


@pytest.mark.parametrize("how", [[], ["--poll"]], ids=["events", "poll"])
def test_a_save_is_checked_and_mending_is_told(root: Path, how: list[str]) -> None:
    with followed(root, *how) as dev:
        url = dev.line()
        first = dev.line()
        save(root, MANIFEST.replace("entrypoint", "entrypont"))
        broken = dev.until("1 problem")
        told = validated(root)
        save(root, MANIFEST)
        mended = dev.until("no problems")
        err = dev.end()

    assert url.startswith("http://127.0.0.1:")
    assert first.endswith("1 toolset, 1 tool: no problems")
    assert told.startswith("\n".join(broken[:-2]) + "\n")
    assert "unknown key 'entrypont'" in broken[0]
    assert broken[-2] == (
        "demo has errors: it is shown as it was, and its tools wait until it is mended"
    )
    assert mended[0] == "demo is sound again"
    assert dev.program.returncode == 0
    assert err == "serving 'project' until Ctrl-C; open in your browser:\nstopped\n"


def test_thousands_of_files_at_once_are_told_as_few_times(root: Path) -> None:
    other = root.parent / "other"
    for number in range(1000):
        folder = other / f"t{number}"
        folder.mkdir(parents=True)
        text = f'id: t{number}\nname: T\nversion: "1"\n'
        (folder / "toolset.yaml").write_text(text, encoding="utf-8")
    with followed(root, "--json") as dev:
        assert set(dev.json()) == {"url", "host", "port", "pid"}
        assert dev.json()["toolsets"] == 1
        for folder in other.iterdir():
            folder.rename(root / "toolsets" / folder.name)
        told = [dev.json()]
        while told[-1]["toolsets"] < 1001:
            told.append(dev.json())
        save(root, MANIFEST.replace("add", "ad"))
        broken = dev.json()

    assert {name for one in told for name in one["changed"]} == {f"t{n}" for n in range(1000)}
    assert len(told) < 50
    assert (broken["changed"], broken["broken"], broken["mended"]) == (["demo"], ["demo"], [])
    assert broken["problems"][0]["path"] == "toolsets/demo/toolset.yaml"


def test_without_a_project_it_does_not_start(tmp_path: Path) -> None:
    done = subprocess.run(
        [*PROGRAM, "dev"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert done.returncode == 2
    assert done.stderr.startswith("there is no covalt.yaml in ")


def in_a_namespace(limit: str, *command: str) -> list[str]:
    """Return a command in a user namespace of its own, where the kernel gives it no more watches."""
    script = f'echo 2 > /proc/sys/user/{limit} && exec "$@"'
    return ["unshare", "--user", "--map-root-user", "sh", "-c", script, "sh", *command]


@pytest.mark.skipif(
    subprocess.run(
        in_a_namespace("max_inotify_watches", "true"), capture_output=True, check=False
    ).returncode
    != 0,
    reason="this machine lets nobody make a namespace with limits of its own",
)
def test_where_the_limit_of_watches_is_reached_it_polls_and_says_so_once(root: Path) -> None:
    command = in_a_namespace("max_inotify_watches", *PROGRAM, "dev", "--port", "0")
    with subprocess.Popen(
        command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        dev = Following(program)
        dev.until("no problems")
        save(root, MANIFEST.replace("entrypoint", "entrypont"))
        dev.until("1 problem")
        save(root, MANIFEST)
        dev.until("no problems")
        err = dev.end()

    told = [line for line in err.splitlines() if "looking every moment" in line]
    why = "the limit fs.inotify.max_user_watches is reached"
    assert told == [f"{why}: looking every moment instead, as with --poll"]
