"""One module starts the programs that run outside of the sandbox; see its docstring for why."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CODE = [ROOT / "covalt_git", ROOT / "covalt_toolset", ROOT / "server/covalt_server"]

MAY = {
    "covalt_git/system/programs.py": {"subprocess.Popen", "subprocess.run"},
    # The SDK starts an MCP server that the user trusts, in a folder that is never the current one.
    "covalt_git/connections/transports.py": {"stdio_client"},
    # A process of the fork server, which has entered the sandbox, becomes the program of an MCP server.
    "covalt_git/runtime/processes/server_program.py": {"os.execve"},
}

SAFE = {"DEVNULL", "PIPE", "STDOUT", "CompletedProcess", "SubprocessError", "TimeoutExpired"}
"""Names of ``subprocess`` that start nothing."""

MODULES = {
    *("asyncio.subprocess", "_posixsubprocess", "multiprocessing", "pty", "runpy", "webbrowser"),
    *("concurrent.futures.process", "ensurepip", "venv", "pip"),
}
"""Modules that start programs, or run files by their names."""

NAMES = {
    *(
        "ProcessPoolExecutor",
        "create_subprocess_exec",
        "create_subprocess_shell",
        "subprocess_exec",
    ),
    *("subprocess_shell", "open_process", "run_process", "stdio_client"),
}
"""Functions that start programs, of whatever module."""

PREFIXES = ("exec", "spawn", "posix_spawn", "popen", "startfile", "system")
"""Beginnings of functions of ``os`` that start programs."""


WORDS = re.compile(
    r"\b(?:subprocess|os[\s)\\]*\.\s*(?:{})|from\s+os\b|os\s+as\b|{})".format(
        "|".join(PREFIXES), "|".join({*NAMES, *(name.partition(".")[0] for name in MODULES)})
    )
)
"""What occurs in each text that may start a program; other texts need no parsing."""


def starts(source: str) -> Iterator[str]:
    """Yield what could start a program in Python code, except in annotations."""
    if not WORDS.search(source):
        return
    tree = ast.parse(source)
    annotations: set[ast.AST] = set()
    for node in ast.walk(tree):
        for field in ("annotation", "returns"):
            if isinstance(note := getattr(node, field, None), ast.AST):
                annotations.update(ast.walk(note))
    for node in ast.walk(tree):
        if node in annotations:
            continue
        if isinstance(node, ast.Import):
            for one in node.names:
                if one.name in MODULES or (one.name in {"subprocess", "os"} and one.asname):
                    yield f"import {one.name}"
        elif isinstance(node, ast.ImportFrom):
            yield from _imported(node)
        elif isinstance(node, ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            if owner == "subprocess" and node.attr not in SAFE:
                yield f"subprocess.{node.attr}"
            elif owner == "os" and node.attr.startswith(PREFIXES):
                yield f"os.{node.attr}"
            elif node.attr in NAMES:
                yield node.attr
        elif isinstance(node, ast.Name) and node.id in NAMES:
            yield node.id


def _imported(node: ast.ImportFrom) -> Iterator[str]:
    for one in node.names:
        if node.module == "subprocess" and one.name not in SAFE:
            yield f"subprocess.{one.name}"
        elif node.module == "os" and one.name.startswith(PREFIXES):
            yield f"os.{one.name}"
        elif node.module in MODULES or f"{node.module}.{one.name}" in MODULES:
            yield f"import {node.module}"
        elif one.name in NAMES:
            yield one.name


def test_no_other_module_starts_programs() -> None:
    found = {
        name: used
        for folder in CODE
        for path in folder.rglob("*.py")
        if (used := set(starts(path.read_text(encoding="utf-8"))))
        for name in [path.relative_to(ROOT).as_posix()]
    }

    assert found == MAY, "start programs by covalt_git.system.programs"


@pytest.mark.parametrize(
    "source",
    [
        "import subprocess\nsubprocess.run(['x'])",
        "import subprocess\nstart = subprocess.Popen",
        "from subprocess import check_output",
        "import subprocess as s",
        "import os\nos.execvp('x', ['x'])",
        "import os\nos.posix_spawn('x', [], {})",
        "import os\nos.system('x')",
        "import os as o",
        "from os import spawnv",
        "import asyncio\nasyncio.create_subprocess_exec('x')",
        "from asyncio import create_subprocess_shell",
        "import asyncio.subprocess",
        "from concurrent.futures import ProcessPoolExecutor",
        "import multiprocessing",
        "import webbrowser",
        "import pty",
        "import anyio\nanyio.open_process(['x'])",
        "from mcp.client.stdio import stdio_client",
    ],
)
def test_each_way_to_start_a_program_is_seen(source: str) -> None:
    assert list(starts(source))


def test_types_and_constants_start_nothing() -> None:
    source = "import os, subprocess\ndef f(p: subprocess.Popen[str]) -> None: p.wait(subprocess.PIPE); os.fork()"

    assert list(starts(source)) == []
