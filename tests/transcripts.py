"""Transcripts of the command line: the steps of a case, and what they print (see fixtures/cli/README.md)."""

import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from covalt_git.cli import main
from covalt_git.runtime import sandbox_levels

REPOSITORY = Path(__file__).parent.parent
_VARIABLE = re.compile(r"[A-Z_]+=")
_TIME = re.compile(r"\d{4}-\d\d-\d\d([T ])\d\d:\d\d(:\d\d)?(\.\d+)?(Z|\+00:00)?")
_DATE = re.compile(r"\b20\d\d-\d\d-\d\d\b(?!T)")
_DURATION = re.compile(r"\b\d+(?:\.\d+)? (ms|s)\b")
_SIZE = re.compile(r"\b(?!0 )\d+(?:\.\d)? (KiB|bytes)\b")
_NANOSECONDS = re.compile(r"\b\d{9}\b")
_MILLISECONDS = re.compile(r"(RESULT|ok|failed|skipped) +(MS|\d+)\b")
_NAMED = re.compile(
    r"(?P<id>\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b)"
    r"|(?P<digest>sha256:[0-9a-f]{6,64}|\b[0-9a-f]{64}\b)"
    r"|(?P<key>SHA256:[\w+/]{43}|\bAAAAC3[\w+/]+)"
    r"|(?P<token>\bcvg_\w+)"
    r"|(?P<commit>\b(?=[0-9a-f]*\d)[0-9a-f]{12}(?:[0-9a-f]{28})?\b)"
)

_SHELL = {
    "PYTHON": sys.executable,
    "SERVERS": str(REPOSITORY / "fixtures/servers"),
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "Ann",
    "GIT_AUTHOR_EMAIL": "ann@example.com",
    "GIT_COMMITTER_NAME": "Ann",
    "GIT_COMMITTER_EMAIL": "ann@example.com",
}
"""Variables of the steps that are not covalt-git commands."""


@dataclass(eq=False)
class _Stream(io.RawIOBase):
    """One of the two outputs of a command, which knows the order of what both print."""

    mark: str
    printed: list[tuple[str, bytes]]

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        self.printed.append((self.mark, bytes(content)))
        return len(content)


@dataclass
class Transcript:
    """Runs steps in a project, and writes down what a user would see."""

    root: Path
    folder: Path = field(init=False)
    lines: list[str] = field(default_factory=list)
    _names: dict[str, str] = field(default_factory=dict)
    _ids: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder = self.root

    def step(self, line: str) -> None:
        """Run a line of ``steps.txt``."""
        self.lines.append(line)
        if not line.startswith("$ "):
            return
        command = self.with_ids(line.removeprefix("$ "))
        words = shlex.split(command)
        variables = {}
        while _VARIABLE.match(words[0]):
            name, _, value = words.pop(0).partition("=")
            variables[name] = value
        if words[0] == "cd":
            self.folder = (self.folder / words[1]).resolve()
        elif words[0] == "covalt-git":
            self._command(words[1:], variables)
        else:
            self._shell(command)

    def text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)

    def _command(self, words: list[str], variables: dict[str, str]) -> None:
        files = {}
        while len(words) > 1 and words[-2] in {"<", ">"}:
            name, operator = words.pop(), words.pop()
            files[operator] = self.folder / name
        given = files["<"].read_bytes() if "<" in files else b""
        with _at(self.folder, variables, given):
            code, printed = _run(words)
        if ">" in files:
            files[">"].write_bytes(b"".join(part for mark, part in printed if not mark))
            printed = [(mark, part) for mark, part in printed if mark]
        for mark, text in _joined(printed):
            self._write(text, mark)
        if code != 0:
            self.lines.append(f"[exit {code}]")

    def _shell(self, command: str) -> None:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=os.environ | _SHELL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}"
        self._write(done.stdout, "")

    def _write(self, text: str, mark: str) -> None:
        self.lines += [f"{mark}{line}".rstrip() for line in self._constant(text).splitlines()]

    def _constant(self, text: str) -> str:
        """Return a text with what differs from run to run replaced."""
        text = text.replace(str(self.root), "/project").replace(str(self.root.parent), "/folder")
        text = text.replace(str(Path(sys.executable).with_name("covalt-git")), "/bin/covalt-git")
        text = text.replace(sys.executable, "python3").replace(str(REPOSITORY), "/covalt-git")
        text = _TIME.sub(_constant_time, text)
        text = _DATE.sub("2026-01-02", text)
        text = _DURATION.sub(r"N \1", _SIZE.sub(r"N \1", _NANOSECONDS.sub("NANOSECONDS", text)))
        text = _MILLISECONDS.sub(
            lambda found: f"{found[1]}  {'MS' if found[2] == 'MS' else 'N'}", text
        )
        text = re.sub(rf"\b(in|sandbox:?) {sandbox_levels.level()}\b", r"\1 SANDBOX", text)
        return _NAMED.sub(self._named, text)

    def _named(self, found: re.Match[str]) -> str:
        kind = found.lastgroup or ""
        # Short and long forms of an id have one name.
        digits = found[kind].removeprefix("sha256:")
        ids = (key for key in self._names if key.startswith("id ") and key.endswith(f"-{digits}"))
        key = next(ids, f"{kind} {digits[:12] if kind in {'commit', 'digest'} else digits}")
        if key not in self._names:
            number = sum(one.startswith(f"{kind} ") for one in self._names) + 1
            self._names[key] = f"<{kind}-{number}>"
            self._ids[self._names[key]] = found[kind]
        in_column = found.string[found.end() :].startswith("  ")
        return self._names[key].ljust(len(found[kind]) if in_column else 0)

    def with_ids(self, command: str) -> str:
        """Return a command with the ids that earlier commands printed, in place of their names."""
        for name, value in self._ids.items():
            command = command.replace(name, value)
        return command


def _constant_time(found: re.Match[str]) -> str:
    seconds, fraction = (found[2] and ":05") or "", re.sub(r"\d", "0", found[3] or "")
    return f"2026-01-02{found[1]}03:04{seconds}{fraction}{found[4] or ''}"


def play(case: Path, root: Path) -> str:
    """Run the steps of a case in a project; return its transcript."""
    transcript = Transcript(root)
    for line in (case / "steps.txt").read_text(encoding="utf-8").splitlines():
        transcript.step(line)
    return transcript.text()


def _run(words: list[str]) -> tuple[int, list[tuple[str, bytes]]]:
    printed: list[tuple[str, bytes]] = []
    out, err = (
        io.TextIOWrapper(_Stream(mark, printed), "utf-8", write_through=True)  # type: ignore[type-var]
        for mark in ("", "2> ")
    )
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main(words)
    assert isinstance(ended.value.code, int)
    return ended.value.code, printed


def _joined(printed: list[tuple[str, bytes]]) -> Iterator[tuple[str, str]]:
    """Yield what was printed, in turn to either output."""
    for mark, parts in groupby(printed, itemgetter(0)):
        yield mark, b"".join(part for _, part in parts).decode("utf-8", "backslashreplace")


@contextmanager
def _at(folder: Path, variables: dict[str, str], given: bytes) -> Iterator[None]:
    """Give a command a folder, variables and an input."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given), "utf-8"))
        for name in [name for name in os.environ if name.startswith("COVALT_")]:
            patch.delenv(name)
        for name, value in variables.items():
            patch.setenv(name, value)
        yield
