"""The tool that runs a shell command in the workspace."""

from __future__ import annotations

import subprocess
from pathlib import Path  # noqa: TC003 - the SDK evaluates this annotation when the tool is called
from tempfile import TemporaryFile
from typing import IO, Any

MAX_OUTPUT_BYTES = 256 * 1024
"""Maximum size of the output in a result; of longer output, half is its beginning and half its end."""


def run_command(workspace: Path, command: str) -> dict[str, Any]:
    """Run a shell command in the workspace.

    The result has the command's stdout and stderr, in the order in which they were written, and its
    exit code; a negative exit code is the number of the signal that killed it.

    Args:
        workspace: the chat's folder
        command: the command line, for /bin/sh
    """
    # A file, not a pipe: a program that the command leaves in the background keeps a pipe open,
    # and reading the pipe to its end would wait for that program.
    with TemporaryFile() as output:
        finished = subprocess.run(  # noqa: S602 - a shell is the purpose of this tool; it needs approval
            command,
            shell=True,
            cwd=workspace,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
        kept = _ends(output)
    return {
        "command": command,
        "output": kept.decode("utf-8", errors="replace"),
        "exit_code": finished.returncode,
    }


def _ends(output: IO[bytes]) -> bytes:
    """Return the output; of long output, its beginning and its end, and the size of the omitted part."""
    size = output.seek(0, 2)
    output.seek(0)
    if size <= MAX_OUTPUT_BYTES:
        return output.read(size)
    half = MAX_OUTPUT_BYTES // 2
    beginning = output.read(half)
    output.seek(size - half)
    return beginning + f"\n[{size - 2 * half} bytes left out]\n".encode() + output.read(half)
