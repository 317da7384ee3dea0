"""A toolset and a workspace to run one function in; what a run leaves behind fails its test."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest

from covalt_git.manifests.toolset_files import read_bundle_files
from covalt_git.models.calls import CallError
from covalt_git.models.outcomes import Outcome
from covalt_git.models.tool_properties import Limits
from covalt_git.names import new_id
from covalt_git.runtime import sandbox_levels
from covalt_git.runtime.jobs import Job
from covalt_git.runtime.pool import SandboxPool
from covalt_git.runtime.python_tool import run
from covalt_git.toolsets.toolset_copies import ToolsetCopy

STUBBORN = """
import fcntl, os, signal, subprocess, time
from pathlib import Path

def run(workspace: Path, mark: str) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    held = (workspace / "held").open("w")
    fcntl.flock(held, fcntl.LOCK_EX)
    sleeper = ["sleep", "600", "0." + mark]
    try:
        subprocess.Popen(sleeper, start_new_session=True)
    except PermissionError:  # a level whose tools cannot leave their session
        subprocess.Popen(sleeper)
    (workspace / "half.txt").write_text("half")
    (workspace / "begun").touch()
    time.sleep(600)
"""
"""A tool that does not end by itself, and starts a process with a mark on its command line."""


@dataclass(frozen=True)
class Workshop:
    """Runs functions that a test writes, as the runtime runs a tool."""

    toolset: Path
    workspace: Path
    scratch: Path
    pool: SandboxPool

    def write(self, path: str, source: str) -> None:
        file = self.toolset / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(source), encoding="utf-8")

    def copy(self) -> ToolsetCopy:
        """Return the copy of the toolset as it is now."""
        cache, files = self.toolset.parent / "cache", read_bundle_files(self.toolset, "demo")
        return ToolsetCopy(cache, "demo", files.digest, self.toolset, files.files)

    def job(self, entrypoint: str = "tools.it:run", **changes: Any) -> Job:
        limits = {"timeout_s": 20.0, "output_mb": 16, **changes.pop("limits", {})}
        return Job(
            toolset=self.copy(),
            entrypoint=entrypoint,
            args=changes.pop("args", {}),
            workspace=self.workspace,
            chat_id="c1",
            call_id="call-1",
            level=changes.pop("level", sandbox_levels.level()),
            limits=Limits(**limits),
            **changes,
        )

    def run(self, source: str, **changes: Any) -> Outcome:
        """Run the function ``run`` of ``source``, which becomes ``tools/it.py``."""
        self.write("tools/it.py", source)
        return run(self.job(**changes), pool=self.pool)

    def call(self, body: str, **changes: Any) -> Outcome:
        """Run a function with these lines."""
        imports = "import os, signal, subprocess, sys, threading, time\nfrom pathlib import Path"
        return self.run(f"{imports}\ndef run():\n{indent(dedent(body), ' ' * 4)}\n", **changes)


def error_of(outcome: Outcome) -> CallError:
    """Return the error of a call, which has to have one."""
    assert outcome.status == "error"
    assert outcome.result is None
    assert outcome.error is not None
    return outcome.error


@pytest.fixture
def mark() -> str:
    """A number that no other process of this machine has on its command line."""
    return str(int(new_id().replace("-", ""), 16))


@pytest.fixture(scope="session")
def pool() -> Iterator[SandboxPool]:
    """The processes that the tests of a session share, as the calls of a server do."""
    made = SandboxPool()
    yield made
    made.close()


@pytest.fixture
def workshop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pool: SandboxPool
) -> Iterator[Workshop]:
    made = Workshop(tmp_path / "toolset", tmp_path / "workspace", tmp_path / "scratch", pool)
    made.workspace.mkdir()
    made.scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(made.scratch))

    yield made

    pool.end_idle()
    assert list(made.scratch.iterdir()) == []
