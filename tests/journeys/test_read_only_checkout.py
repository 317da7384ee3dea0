"""A project on a read-only file system: commands that only read work, with or without an index."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

# One process for all: a start of Python for each command would take most of the time.
EACH = """\
import sys
from covalt_git.cli import main
for command in sys.argv[1:]:
    try:
        main(command.split())
    except SystemExit as ended:
        if ended.code:
            print("failed:", command, flush=True)
"""
COMMANDS = (
    "validate",
    "toolset list",
    "toolset show data-lab",
    "tool list",
    "tool search table",
    "tool show data-lab:summarize",
    "approval list",
    "chat list",
    "chat log c1",
    "index status",
    "authority show",
)
MOUNTED = """\
set -eu
mount --bind "$1" "$1"
mount -o remount,ro,bind "$1"
cd "$1"
! touch probe 2>/dev/null
echo mounted
eval "$2"
"""


def read_only(root: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script in ``root``, mounted read-only; skip the test where this is not possible."""
    if shutil.which("unshare") is None:
        pytest.skip("this machine has no unshare")
    options = "-m" if os.geteuid() == 0 else "-rm"
    argv = ["unshare", options, "sh", "-c", MOUNTED, "sh", str(root), script]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if not done.stdout.startswith("mounted\n"):
        pytest.skip("this machine does not permit mounts")
    return done


@pytest.mark.parametrize(
    "index",
    [
        "current",
        # These are read as a project without data is: its tools are listed without an index.
        *(pytest.param(one, marks=pytest.mark.rest) for one in ("outdated", "missing", "damaged")),
    ],
)
def test_lists_and_searches_work_in_a_read_only_checkout(
    root: Path, index: str, cli: Callable[..., tuple[int, str]]
) -> None:
    cli("chat", "new", "--id", "c1")
    cli("tool", "list")
    file = root / "data" / "index.db"
    if index == "outdated":
        manifest = root / "toolsets/data-lab/toolset.yaml"
        text = manifest.read_text(encoding="utf-8")
        manifest.write_text(text.replace("\nname: ", "\nname: New ", 1), encoding="utf-8")
    elif index == "missing":
        file.unlink()
    elif index == "damaged":
        file.write_bytes(file.read_bytes()[:5000].ljust(60_000, b"x"))

    done = read_only(root, shlex.join([sys.executable, "-c", EACH, *COMMANDS]))

    assert "failed: " not in done.stdout, done.stdout + done.stderr
    assert "data-lab:summarize" in done.stdout


def test_a_read_only_checkout_without_data_lists_its_tools(root: Path) -> None:
    shutil.rmtree(root / "data", ignore_errors=True)

    done = read_only(root, shlex.join([sys.executable, "-m", "covalt_git", "tool", "list"]))

    assert done.returncode == 0, done.stderr
    assert "data-lab:summarize" in done.stdout
