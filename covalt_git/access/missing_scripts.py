"""Scripts that the command of an MCP server names, and that are not where the server looks for them.

A server starts in an empty folder, or in ``cwd``: a path that the author wrote for another folder, such as the
project's, names no file there.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.access.loaded_code import code_words, runs_named_program, start_folder
from covalt_git.errors import nearest_name
from covalt_git.models.sources.package_command import NotPinnableError, package_command

if TYPE_CHECKING:
    from collections.abc import Collection

    from covalt_git.models.toolset_manifest import McpServer

_SCRIPT = re.compile(r"[^\s=]+\.(py|js|mjs|ts|sh|rb)", re.IGNORECASE)
_TOOLSET = re.compile(r"\$(?:toolset|\{toolset\})(?:/|\Z)")
_INTERPRETERS = {"py": "python3", "js": "node", "mjs": "node", "sh": "sh", "rb": "ruby"}


class MissingScript(NamedTuple):
    """A word of a command that names no file: its place in the definition of the server, and how to correct it."""

    loc: tuple[str | int, ...]
    message: str
    hint: str


def missing_script(server: McpServer, files: Collection[str]) -> MissingScript | None:
    """Return the first word of a command that a program cannot be started from; ``files`` are the toolset's.

    Absolute paths, and words with references or after the script, are not checked.
    """
    command = server.command
    if command is None or _runs_package(server):
        return None
    if re.search(r"\s", command) and not command.startswith(("/", "~", "$")):
        return _several_words(server, command)
    is_path = "/" in command and _in_toolset(command) is not None
    if is_path and not _exists(server, command, files, also=""):
        return _missing(("command",), command, files)
    argv = (command, *server.args)
    if runs_named_program(argv):
        return None
    _, folder = start_folder(argv) or (0, "")
    if folder and _in_toolset(folder) is None:
        return None
    for at in sorted(code_words(argv) - {0}):
        word = server.args[at - 1] if at <= len(server.args) else ""
        is_script = _SCRIPT.fullmatch(word) and not word.startswith("-")
        if is_script and _in_toolset(word) == word:
            word = posixpath.join(folder, word)
        if is_script and _in_toolset(word) is not None and not _exists(server, word, files):
            return _missing(("args", at - 1), word, files)
    return None


def _runs_package(server: McpServer) -> bool:
    try:
        return package_command(server) is not None
    except NotPinnableError:
        return True


def _several_words(server: McpServer, command: str) -> MissingScript:
    try:
        program, *args = shlex.split(command)
    except ValueError:  # a quote without an end
        program, *args = command.split()
    words = ", ".join(shlex.quote(word) for word in (*args, *server.args))
    message = f"{command!r} is a program with its arguments, and command is the program alone"
    return MissingScript(("command",), message, f"write command: {program}, and args: [{words}]")


def _in_toolset(word: str) -> str | None:
    """Return a word relative to the toolset or to the folder of the start; None if it is elsewhere or not known yet."""
    path = _TOOLSET.sub("", word, count=1)
    if path.startswith(("/", "~")) or "$" in path or "://" in path:
        return None
    return path


def _exists(
    server: McpServer, word: str, files: Collection[str], *, also: str | None = None
) -> bool:
    """Return whether a word is a file of the toolset, seen from where the server starts, or from the folder ``also``."""
    path = _in_toolset(word)
    assert path is not None
    if path != word:
        return posixpath.normpath(path) in files
    if server.cwd is None:
        return path in files  # `./server.py` is looked for in the empty folder
    start = _in_toolset(server.cwd)
    if start is None:
        return True
    starts = {start, start if also is None else also}
    return any(posixpath.normpath(posixpath.join(folder, path)) in files for folder in starts)


def _missing(loc: tuple[str | int, ...], word: str, files: Collection[str]) -> MissingScript:
    path = posixpath.normpath(_in_toolset(word) or "")
    parts = path.split("/")
    ends = ("/".join(parts[at:]) for at in range(len(parts)))
    near = next((end for end in ends if end in files), None) or nearest_name(path, files)
    if path in files:
        message = f"{word!r} is not found, because the server starts in another folder"
    else:
        message = f"the toolset has no file {word!r}, and paths are relative to the toolset"
    if near is None:
        hint = "add the file, or correct the path"
    elif loc == ("command",) and (interpreter := _INTERPRETERS.get(near.rpartition(".")[2])):
        hint = f"write command: {interpreter}, and args: [$toolset/{near}]"
    else:
        hint = f"write $toolset/{near}"
    return MissingScript(loc, message, hint)
