"""The command line with everything imported already, in a process that runs nothing else.

It forks a process for every command that it is asked to run, over the socket whose number is its
argument: a message of JSON with four file descriptors, the command's input, output and errors, and the
end of a pipe that the exit status is written to.  So a command has a process of its own, with its own
environment and folder, as at a prompt, and needs no half second to import what it needs.  What it
inherits in memory is about another project.  The pipe carries its process id too, in a line before the
exit status.
"""

import atexit
import gc
import importlib
import io
import json
import os
import signal
import socket
import sys
import threading
import traceback
from pathlib import Path
from typing import Any, NoReturn

from covalt_git.cli import main
from covalt_git.cli.command_names import COMMANDS
from covalt_git.toolsets.project_files import read_project

REPOSITORY = Path(__file__).parent.parent

_LONGEST = 1 << 20


def serve(number: int) -> None:
    """Run commands until the other end of the socket is closed."""
    for name in COMMANDS:
        importlib.import_module(f"covalt_git.cli.{name}")
    # The first reading of a project imports and compiles what takes longer than most commands.
    read_project(REPOSITORY)
    gc.freeze()  # else the collector copies the memory that a forked process shares
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the intermediate processes are not waited for
    with socket.socket(fileno=number) as asked:
        while True:
            message, descriptors, _, _ = socket.recv_fds(asked, _LONGEST, 4)
            if not message:
                return
            if os.fork() == 0:
                asked.close()
                _watch(json.loads(message), descriptors)
            for one in descriptors:
                os.close(one)


def _watch(told: dict[str, Any], descriptors: list[int]) -> NoReturn:
    """Run a command in its own process, and report its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *streams, status = descriptors
    child = os.fork()
    if child == 0:
        os.close(status)
        _run(told, streams)
    os.write(status, f"{child}\n".encode())
    for one in streams:
        os.close(one)
    _, ended = os.waitpid(child, 0)
    os.write(status, str(os.waitstatus_to_exitcode(ended)).encode())
    os._exit(0)


def _run(told: dict[str, Any], streams: list[int]) -> NoReturn:
    for number, one in enumerate(streams):
        os.dup2(one, number)
        os.close(one)
    os.environ.clear()
    os.environ.update(told["env"])
    os.chdir(told["cwd"])
    sys.argv = ["covalt-git", *told["args"]]
    sys.modules["__main__"].__package__ = ""  # else click says how this module was started
    sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False), encoding="utf-8")
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(io.FileIO(1, "w", closefd=False)), encoding="utf-8"
    )
    sys.stderr = io.TextIOWrapper(
        io.FileIO(2, "w", closefd=False),
        encoding="utf-8",
        errors="backslashreplace",
        write_through=True,
    )
    code: Any = 0
    try:
        main(told["args"])
    except SystemExit as ended:
        code = ended.code
        if isinstance(code, str):
            sys.stderr.write(f"{code}\n")
    except BaseException:  # noqa: BLE001 - as the interpreter ends
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(code if isinstance(code, int) else 1)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
