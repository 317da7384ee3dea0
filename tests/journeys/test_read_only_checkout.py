"""A project on a read-only file system: commands that only read work, with or without an index."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("index", ["current", "outdated", "missing", "damaged"])
def test_lists_and_searches_work_in_a_read_only_checkout(root: Path, index: str) -> None:
    program = shlex.join([sys.executable, "-m", "covalt_git"])
    run = f"cd {shlex.quote(str(root))}; {program}"
    subprocess.run(
        ["sh", "-euc", f"{run} chat new --id c1; {program} tool list"],
        check=True,
        capture_output=True,
    )
    file = root / "data" / "index.db"
    if index == "outdated":
        manifest = root / "toolsets/data-lab/toolset.yaml"
        text = manifest.read_text(encoding="utf-8")
        manifest.write_text(text.replace("\nname: ", "\nname: New ", 1), encoding="utf-8")
    elif index == "missing":
        file.unlink()
    elif index == "damaged":
        file.write_bytes(file.read_bytes()[:5000].ljust(60_000, b"x"))

    script = "\n".join(f"{program} {one} || echo failed: {one}" for one in COMMANDS)
    done = read_only(root, script)

    assert "failed: " not in done.stdout, done.stdout + done.stderr
    assert "data-lab:summarize" in done.stdout


def test_a_read_only_checkout_without_data_lists_its_tools(root: Path) -> None:
    shutil.rmtree(root / "data", ignore_errors=True)

    done = read_only(root, shlex.join([sys.executable, "-m", "covalt_git", "tool", "list"]))

    assert done.returncode == 0, done.stderr
    assert "data-lab:summarize" in done.stdout
