"""Configuration files of agents' hosts, with an entry for our MCP server.

The entry has the form that ``convert`` writes for the host, in the file of the project if the host has one, else in that
of the user.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from covalt_git.errors import CovaltError
from covalt_git.formats.documents import FormatError, parse
from covalt_git.formats.http_texts import escaped
from covalt_git.formats.mcp_clients import config_writer, text_edit
from covalt_git.formats.mcp_clients.host_files import INSTALLABLE, TOKEN_VARIABLE, config_path
from covalt_git.formats.mcp_clients.hosts import HOSTS
from covalt_git.formats.model import Part
from covalt_git.system import atomic_write, programs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.formats.mcp_clients.hosts import Host
    from covalt_git.json_values import JsonObject
    from covalt_git.json_values.pointer import Loc

BY_NAME: Final = {host.name: host for host in HOSTS if host.name in INSTALLABLE}
"""The hosts to whose files our server can be added."""

_PROGRAM = "covalt-git"


class HostFileError(CovaltError):
    """A configuration file to which a server cannot be added."""

    code = "host_file"


class HostFile(NamedTuple):
    """A host's file before and after the entry ``name`` of our server is added."""

    path: Path
    host: Host
    name: str
    entry: JsonObject
    before: str
    after: str

    @property
    def has_entry(self) -> bool:
        """Whether the file had an entry with the name before."""
        try:
            value = parse(self.before.encode(), str(self.path)).value
        except FormatError:  # an empty file
            return False
        return self.name in (self.host.servers(value) or {})


def with_server(host: Host, root: Path, server: Sequence[str] | str, name: str) -> HostFile:
    """Return the file of a host with the server of the project at ``root``.

    ``server`` are the arguments with which the host starts it, or its URL.  Other content of the file, and its
    comments, do not change.  The entry has the program's absolute path, because the host's PATH often differs.

    Raises:
        HostFileError: if the file cannot be edited, or the host does not support such a server.
    """
    entry = host.named(name, _entry(host, root, server))
    path = config_path(host.name, root, name)
    text = _read(path)
    try:
        after = text_edit.with_server(host, text, name, entry, str(path))
    except FormatError as error:
        why = error.problems[0].message if error.problems else error.message
        raise HostFileError(why, hint="add the output of --print by hand") from None
    return HostFile(path, host, name, entry, text, after)


def write(file: HostFile) -> None:
    """Write a host's file atomically, if it has not changed since it was read.

    Raises:
        HostFileError: if it has changed or cannot be written.
    """
    if _read(file.path) != file.before:
        raise HostFileError(f"{str(file.path)!r} has changed meanwhile", hint="try again")
    try:
        atomic_write.replace(file.path, file.after)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise HostFileError(f"{str(file.path)!r} cannot be written: {why}") from None


def _entry(host: Host, root: Path, server: Sequence[str] | str) -> JsonObject:
    """Return the entry of our server in the form of a host.

    With a URL, the host reads the token from its environment.
    """
    reasons: dict[Loc, str] = {}
    is_url = isinstance(server, str)
    own = _served(server) if isinstance(server, str) else _started(host, root, server)
    entry = config_writer.written_server(host, Part(own, used=reasons))
    why = next(filter(None, reasons.values()), None)
    if entry is None or why is not None:
        hint = "leave out --http, so that it starts the server" if is_url else "add it by hand"
        raise HostFileError(str(why), hint=hint)
    return entry


def _served(url: str) -> JsonObject:
    token = f"Bearer ${{env:{TOKEN_VARIABLE}}}"
    return {"url": escaped(url), "headers": {"Authorization": token}}


def _started(host: Host, root: Path, args: Sequence[str]) -> JsonObject:
    # The program of this installation: PATH may have another version first.
    own = Path(sys.executable).with_name(_PROGRAM)
    program = str(own) if own.exists() else programs.find(_PROGRAM) or _PROGRAM
    # Claude Code starts servers in the project.  Others start them in any folder.  A file of a project is checked in,
    # so it names the folder by what the host knows of it.
    folder = "${workspace}" if host.folder else escaped(str(root))
    where = [] if host.name == "claude-code" else ["-C", folder]
    words = [*where, "mcp", *map(escaped, args)]
    return {"transport": "stdio", "command": escaped(program), "args": words}


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise HostFileError(f"{str(path)!r} cannot be read: {error}") from None
