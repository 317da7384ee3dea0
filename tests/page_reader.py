"""Pages of docs/start and docs/how-to, performed as a reader types them: each command, in an empty home folder.

A page is run from top to bottom:

- A line ``$ command`` of a ``console`` block is run in the folder of the previous command.  ``covalt-git`` runs at a
  terminal, and gets the answers to its prompts from the page.  The lines below it are what the command prints.
- A block ``yaml path`` (or another language and a path) is written to this file, ``yaml path+`` to its end, and
  ``yaml path+key`` to the line below a key of its first level.
- A block ``python`` without a path is executed.
- A block ``text agent`` is what the reader asks an agent, which is a function of the test.

In what a page shows, ``...`` is any text, and a line ``...`` any number of lines.  Ids, times, durations and sizes differ
in each run: an id of the page is the id that the run has in its place, also in later commands.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests.command import REPOSITORY, Terminal

HOME = "/home/ada"
PROGRAM = f"{HOME}/covalt-git/.venv/bin/covalt-git"
PORT = "8787"
"""Where `serve` listens by default; a test takes any available port, because tests run concurrently."""

_BLOCK = re.compile(r"(?ms)^( *)```(\w+)(?: (\S+))?\n(.*?)^ *```$")
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_VALUE = "the-key-of-the-api"
_PROMPT = re.compile(r"(\[y/N\]: |\[Y/n\]: |^value of \w+: ?)(\w*)$")
_SHELL = re.compile(r"[|<>;&$~*]|^\w+=")
_PROCESS_ENDS_LATER = re.compile(r"covalt-git(?: --role \w+)? (?:serve|dev)\b")
_VARIES = re.compile(
    r"(?P<any>\.\.\.)"
    r"|(?P<time>\b20\d\d-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?Z?)?|\b\d\d:\d\d:\d\d\b)"
    r"|(?P<id>\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"
    r"|\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{7,64}\b)"
    r"|(?P<size>\b\d+(?:\.\d+)?(?= (?:bytes|KiB)\b))"
    r"|(?P<duration>\b\d+(?:\.\d+)?(?= m?s\b)|(?<=in )\d+\.\d+(?=s\b)|(?<=  )\d+$)"
    # The columns of a table are as wide as the longest number in them.
    r"|(?P<gap>(?<=\S) {2,}(?=\S))",
    re.MULTILINE,
)


def blocks(page: str) -> Iterator[tuple[str, str | None, str]]:
    """Yield the language, the file and the text of each fenced block, without its indentation."""
    for indent, language, file, text in _BLOCK.findall(page):
        lines = (line.removeprefix(indent) for line in text.splitlines())
        yield language, file or None, "\n".join(lines) + "\n"


def steps(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each command of a console block with the lines that it prints."""
    command: str | None = None
    printed: list[str] = []
    for line in text.splitlines():
        if command is not None and command.endswith("\\") and not printed:
            command = command[:-1] + line.strip()
        elif line.startswith("$ "):
            if command is not None:
                yield command, printed
            command, printed = line[2:], []
        else:
            printed.append(line)
    assert command is not None, text
    yield command, printed


def _replaced(text: str, replacements: dict[str, str]) -> str:
    for old, new in replacements.items():
        text = text.replace(old, new)
    return text


@dataclass
class Reader:
    """A reader who performs a page in a home folder."""

    home: Path
    agent: Callable[["Reader", str], None] | None = None
    hosts: dict[str, str] = field(default_factory=dict)
    """Texts of the page that are a server of the test in the run, such as a host."""
    folder: Path = field(init=False)
    env: dict[str, str] = field(init=False)
    codes: dict[str, int] = field(default_factory=dict)
    """Exit codes of the commands that failed."""
    differences: list[str] = field(default_factory=list)
    pending: str = ""
    """The call of the agent that waits for approval."""
    text: str = ""
    """The page with the output of this run."""
    url: str = ""
    """URL of the last server that the page started, with its token."""
    _place: int = 0
    _ids: dict[str, str] = field(default_factory=dict)
    _servers: list[Terminal] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder = self.home
        programs = self.home.with_name("bin")
        programs.mkdir()
        program = programs / "covalt-git"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m covalt_git "$@"\n')
        program.chmod(0o755)
        self.env = {
            "HOME": str(self.home),
            "PATH": os.pathsep.join(
                [str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]
            ),
            "PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "server")]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "LANG": "C.UTF-8",
            "TERM": "xterm",
            "NO_COLOR": "1",
            "USER": "ada",
            # Paths of tests are longer than those of users, so their lines would be broken.
            "COLUMNS": "200",
            "GIT_TEMPLATE_DIR": "",
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stops_servers()

    def reads_after_the_first_page(self) -> None:
        """Create the project that the first page of docs/start creates."""
        Terminal("init", "demo", cwd=self.home, env=self.env).end()

    def stops_servers(self) -> None:
        """Stop the servers that a page has started."""
        while self._servers:
            server = self._servers.pop()
            server.command.interrupt()
            server.end()
        self.url = ""

    def performs(self, page: Path, *, until: str | None = None) -> None:
        """Perform a page, or its part before a text; collect the commands that fail, and what they print otherwise than the page shows."""
        self.stops_servers()
        names: dict[str, object] = {}
        self._place = 0
        self.text = page.read_text(encoding="utf-8")
        for language, file, text in blocks(self.text.partition(until)[0] if until else self.text):
            if (language, file) == ("text", "agent"):
                assert self.agent is not None
                self.agent(self, text)
            elif file:
                self._writes(file, _replaced(text, self.hosts))
            elif language == "console":
                for command, expected in steps(text):
                    self._types(command, expected)
            elif language == "python":
                exec(text, names)

    def _writes(self, file: str, text: str) -> None:
        name, adds, key = file.partition("+")
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if adds:
            old = path.read_text(encoding="utf-8")
            place = re.search(rf"(?m)^{key}:\n", old) if key else None
            assert place or not key, f"{name} has no key {key}"
            end = place.end() if place else len(old)
            text = old[:end] + text + old[end:]
        path.write_text(text, encoding="utf-8")

    def _types(self, command: str, expected: list[str]) -> None:
        self._place = max(self._place, self.text.find(f"$ {command}\n", self._place))
        command = _replaced(command, self._ids)
        code, printed = 0, ""
        parts = command.split(" && ")
        for number, part in enumerate(parts):
            answers = [
                # What is typed at the prompt of a secret is not shown.
                (found[1].strip(), found[2] or _VALUE)
                for line in expected
                if (found := _PROMPT.search(line))
            ]
            code, output = self._runs(part, answers if number == len(parts) - 1 else [])
            printed += output
        if code:
            self.codes[command] = code
        self._compares(command, expected, self._constant(printed))

    def _runs(self, part: str, answers: list[tuple[str, str]]) -> tuple[int, str]:
        if part.startswith("cd "):
            self.folder = (self.folder / Path(part[3:].replace("~", str(self.home)))).resolve()
            return 0, ""
        if match := re.fullmatch(r"export (\w+)=(.+)", part):
            command = ["bash", "-c", f"printf %s {match[2]}"]
            self.env[match[1]] = subprocess.check_output(command, env=self.env, text=True)
            return 0, ""
        if _PROCESS_ENDS_LATER.match(part):
            return 0, self.serves(*shlex.split(part)[1:])
        if part.startswith("covalt-git ") and not _SHELL.search(
            re.sub(r"'[^']*'|\"[^\"$]*\"", "", part)
        ):
            terminal = Terminal(*shlex.split(part)[1:], cwd=self.folder, env=self.env)
            for prompt, answer in answers:
                terminal.answers(f"{prompt} ", answer)
            terminal.end()
            return terminal.exit_code or 0, terminal.read
        result = subprocess.run(
            ["bash", "-c", part],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        return result.returncode, result.stdout

    def serves(self, *words: str) -> str:
        """Start ``covalt-git serve`` or ``dev``, which ends with the page; return what it prints."""
        server = Terminal(*(words or ("serve",)), "--port", "0", cwd=self.folder, env=self.env)
        self._servers.append(server)
        server.until("http://127.0.0.1:")
        server.until("problems" if "dev" in words else "\n")
        match = re.search(r"http://127\.0\.0\.1:(\d+)/\S*", server.read)
        assert match is not None
        self.url, self._ids[f":{PORT}"] = match[0], f":{match[1]}"
        return server.read

    def _constant(self, printed: str) -> str:
        """Return an output with the paths of the page's machine, as it is on the screen."""
        text = _COLOUR.sub("", printed).replace("\r\n", "\n")
        for path in (
            Path(sys.executable).with_name("covalt-git"),
            self.home.with_name("bin") / "covalt-git",
        ):
            text = text.replace(str(path), PROGRAM)
        text = text.replace(str(self.home), HOME)
        text = _replaced(text, {own: shown for shown, own in self.hosts.items()})
        for shown, own in self._ids.items():
            if shown.startswith(":"):
                text = text.replace(own, shown)
        text = re.sub(r"token=[\w-]{20,}", "token=...", text)
        return "\n".join(line.rstrip() for line in text.splitlines())

    def _compares(self, command: str, expected: list[str], printed: str) -> None:
        shown = "\n".join(expected).rstrip()
        pattern, ids = self._pattern(shown)
        match = re.fullmatch(pattern, printed)
        if match is None:
            self.differences.append(f"$ {command}\n--- page\n{shown}\n--- run\n{printed}\n")
            self._replaces(command, shown, printed)
            self._place += 1
            return
        self._place += 1
        for name, shown_id in ids.items():
            self._ids[shown_id] = match[name]
            same = [other for other, own in self._ids.items() if own == match[name]]
            if len(same) > 1:
                self.differences.append(f"$ {command}\n--- ids of the page for the same\n{same}\n")

    def _replaces(self, command: str, shown: str, printed: str) -> None:
        for own_id, own in self._ids.items():
            command = command.replace(own, own_id)
            printed = printed.replace(own, own_id)
            printed = re.sub(rf"\b{re.escape(own[:7])}\b", own_id[:7], printed)
        old = f"$ {command}\n" + (f"{shown}\n" if shown else "")
        new = f"$ {command}\n" + (f"{printed}\n" if printed else "")
        begin = self.text.find(old, self._place)
        if begin >= 0:  # else the command has several lines, or its block is indented
            self.text = self.text[:begin] + new + self.text[begin + len(old) :]

    def _pattern(self, shown: str) -> tuple[str, dict[str, str]]:
        """Return the pattern of what a page shows, and the new ids by the names of their groups."""
        parts, end = [], 0
        ids: dict[str, str] = {}
        for match in _VARIES.finditer(shown):
            parts.append(re.escape(shown[end : match.start()]))
            end = match.end()
            if match["any"]:
                whole_line = shown[: match.start()].rpartition("\n")[2].strip() == "" and (
                    shown[end : end + 1] in {"", "\n"}
                )
                parts.append(r"(?s:.*?)" if whole_line else r".*")
            elif match["id"]:
                parts.append(self._id_pattern(match["id"], ids))
            elif match["gap"]:
                parts.append(" {2,}")
            elif match["time"]:
                parts.append(re.sub(r"\d+", r"\\d+", re.escape(match["time"])))
            else:
                parts.append(r"\d+(?:\.\d+)?")
        return "".join([*parts, re.escape(shown[end:])]), ids

    def _id_pattern(self, shown: str, ids: dict[str, str]) -> str:
        for known_id, own in self._ids.items():
            if known_id.startswith(shown):  # git prints the beginning of an id
                return re.escape(own[: len(shown)])
        if shown in ids.values():
            return f"(?P={next(name for name in ids if ids[name] == shown)})"
        name = f"id{len(ids)}"
        ids[name] = shown
        return (
            f"(?P<{name}>"
            + re.sub(r"[0-9a-f]+", lambda part: f"[0-9a-f]{{{len(part[0])}}}", shown)
            + ")"
        )
