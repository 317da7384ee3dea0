"""Facts about an MCP server that a grant covers: its definition in the manifest, and its files.

The definition of a program is its command, arguments, working directory and environment; that of a
remote server is its URL, transport and headers.  References such as ``${NAME}`` are not resolved.

The files of a program are all files of the toolset if its command can start from any, because a script can load
each of them; and none otherwise.  The manifest is one of them only if the command names it: the definition is covered
anyway, and other changes of the manifest would end the grants of all servers.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from typing import TYPE_CHECKING, Any

from covalt_git.json_values import canonical_json
from covalt_git.system.argument_paths import BETWEEN_PATHS
from covalt_git.templating.references import Reference, references
from covalt_git.text import display

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from covalt_git.models.toolset_manifest import McpServer

_MANIFEST = "toolset.yaml"
_BETWEEN_WORDS = re.compile(f"[{BETWEEN_PATHS}]+")
_TOOLSET = re.compile(r"\$(?:toolset\b|\{toolset\})", re.ASCII)
"""References to the toolset's folder, as :class:`string.Template` reads names."""


def grant_facts(server: McpServer, files: Mapping[str, str]) -> dict[str, Any]:
    """Return the facts of a server that its grant covers; ``files`` as of :func:`process_facts`."""
    return server_facts(server) if server.command is None else process_facts(server, files)


def process_facts(server: McpServer, files: Mapping[str, str]) -> dict[str, Any]:
    """Return the facts of a program; ``files`` are the toolset's files and their hexadecimal SHA-256."""
    digests = {path: f"sha256:{files[path]}" for path in _files_of(server, files)}
    facts = {
        "kind": "process",
        "server": server.id,
        "argv": (server.command or "", *server.args),
        "cwd": server.cwd,
        "env": tuple(sorted(server.env)),
        "files": digests,
    }
    # The facts are in a file that is checked in, so they have the names of variables only; the digest covers the values.
    return facts | {"digest": canonical_json.digest(facts | {"env": server.env})}


def server_facts(server: McpServer) -> dict[str, Any]:
    """Return the facts of a remote server."""
    facts = {
        "kind": "server",
        "server": server.id,
        "url": server.url or "",
        "transport": server.server_type,
        "headers": tuple(sorted(server.headers)),
    }
    return facts | {"digest": canonical_json.digest(facts | {"headers": server.headers})}


def references_of(server: McpServer) -> tuple[Reference, ...]:
    """Return the references of a server's definition to values outside of the project.

    A grant of the server covers them: the server can use these values.
    """
    texts = [server.command, *server.args, server.cwd, server.url]
    texts += [*server.env.values(), *server.headers.values()]
    return tuple(
        reference for _, reference in references([text for text in texts if text is not None])
    )


def command_line(argv: Sequence[str]) -> str:
    """Return a command quoted for a shell, on one line, with hidden characters escaped."""
    return display.in_line(shlex.join(argv))


def _files_of(server: McpServer, files: Mapping[str, str]) -> list[str]:
    """Return all files of the toolset, sorted, if a program can start from any of them, and none otherwise.

    Which of them it loads cannot be known from its command: Node and Ruby complete the names of files, references hide
    paths, and a script loads others.
    """
    below = {parent for path in files for parent in _parents(path)}
    # No file has more folders: a command with a long path would otherwise take time by its square.
    deepest = max((path.count("/") + 1 for path in files), default=0)
    texts = (server.command or "", *server.args, *server.env.values())
    starts_there = server.cwd is not None or any(_TOOLSET.search(text) for text in texts)
    places = {*_places(server, deepest)}
    if starts_there or any(place in below or place in files for place in places):
        return sorted(path for path in files if path != _MANIFEST or path in places)
    return []


def _places(server: McpServer, deepest: int) -> Iterator[str]:
    """Yield the paths in the toolset that words of a command can mean, as a path or a module.

    A word is taken as it is, and by its last 1 to ``deepest`` segments.
    """
    for text in (server.command or "", *server.args, *server.env.values()):
        for word in {text, *_BETWEEN_WORDS.split(text)} - {""}:
            # `python -m package.module` names a file by dots.
            for path in (word, word.replace(".", "/"), f"{word.replace('.', '/')}.py"):
                yield from _ends(_plain(path), deepest)


def _ends(path: str, deepest: int) -> Iterator[str]:
    """Yield the ends of a path, because the path can be relative to another folder, or absolute."""
    parts = path.rsplit("/", deepest)[-deepest:] if deepest else [path]
    for start in range(len(parts)):
        yield "/".join(parts[start:])


def _plain(path: str) -> str:
    """Return a normalized path; the toolset's folder is an empty text."""
    plain = posixpath.normpath(path)
    return "" if plain == "." else plain


def _parents(path: str) -> Iterator[str]:
    """Yield the folders above a file; the toolset's folder is an empty text."""
    while path:
        path = posixpath.dirname(path)
        yield path
