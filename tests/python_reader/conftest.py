"""Schemas of functions as they are once their modules are imported."""

import json
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

Described = Callable[[Path, Mapping[str, str]], list[Any]]

_PROGRAM = """
import importlib, json, os, sys
import pydantic
from covalt_toolset import describe
for line in sys.stdin:
    if os.fork() == 0:
        sys.path.insert(0, json.loads(line))
        made = describe(importlib.import_module("tools.echo").f)
        print(json.dumps([made.input_schema, made.output_schema]), flush=True)
        os._exit(0)
    if os.wait()[1]:
        print(flush=True)
"""
"""Forks a process for each folder: importing what describes a function takes longer than describing it."""


@pytest.fixture(scope="session")
def described() -> Iterator[Described]:
    """Return both schemas of ``f`` of ``tools.echo``, in a process that imports it from a folder with these files."""
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    given, printed = process.stdin, process.stdout
    assert given is not None
    assert printed is not None

    def describe(folder: Path, files: Mapping[str, str]) -> list[Any]:
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(textwrap.dedent(text))
        print(json.dumps(str(folder)), file=given, flush=True)
        schemas: list[Any] = json.loads(printed.readline())
        return schemas

    with process:
        yield describe
