"""One command, run by the shell in the workspace."""

from __future__ import annotations

import subprocess
from pathlib import Path  # noqa: TC003 - the SDK looks for this annotation when the tool is called
from tempfile import TemporaryFile
from typing import IO, Any

MAX_OUTPUT_BYTES = 256 * 1024
"""What is kept of an output: half from its beginning, half from its end."""


def run_command(workspace: Path, command: str) -> dict[str, Any]:
    """Run a shell command in the workspace.

    The result has what the command wrote to its output and to its error output, in the order it was
    written, and its exit code; a negative one names the signal that ended it.

    Args:
        workspace: the chat's folder
        command: the command line, for /bin/sh
    """
    # A file and not a pipe: a program that the command leaves in the background keeps its output
    # open, and reading a pipe to its end would wait for that program too.
    with TemporaryFile() as output:
        finished = subprocess.run(  # noqa: S602 - the shell is the point, and why this tool asks
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
    """Return the whole output, or its two ends with a line between them that says what is gone."""
    size = output.seek(0, 2)
    output.seek(0)
    if size <= MAX_OUTPUT_BYTES:
        return output.read(size)
    half = MAX_OUTPUT_BYTES // 2
    beginning = output.read(half)
    output.seek(size - half)
    return beginning + f"\n[{size - 2 * half} bytes left out]\n".encode() + output.read(half)
