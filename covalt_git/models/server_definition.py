"""What is granted of an MCP server: exactly what its toolset writes of it, and the files it names.

A program is its command, arguments, folder and variables; an address is its URL, transport and headers.
Texts count as they are written: ``${NAME}`` stays a reference, and what it stands for is no part of it.

Of a toolset's own files, those belong to a program that a word of it names, with all that lie beside
and below them, because a script loads its neighbours.  A folder that is named stands for all in it.
Node also loads ``package.json`` and ``node_modules/`` of the folders above a script.
The manifest itself is no such file: what it says of the server is here already.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from typing import TYPE_CHECKING, Any

from covalt_git.json_values import canonical_json
from covalt_git.templating.references import Reference, references
from covalt_git.text import display

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from covalt_git.models.toolset_manifest import McpServer

_MANIFEST = "toolset.yaml"
_BETWEEN_WORDS = re.compile(r"[\s=:,;]+")


def process_facts(server: McpServer, files: Mapping[str, str]) -> dict[str, Any]:
    """Return what a grant of the program says of it; ``files`` are the toolset's and their SHA-256 in hex."""
    named = {path: f"sha256:{files[path]}" for path in _files_of(server, files)}
    facts = {
        "kind": "process",
        "server": server.id,
        "argv": (server.command or "", *server.args),
        "cwd": server.cwd,
        "env": tuple(sorted(server.env)),
        "files": named,
    }
    return facts | {"digest": canonical_json.digest(facts | {"env": server.env})}


def server_facts(server: McpServer) -> dict[str, Any]:
    """Return what a grant of the address says of it."""
    facts = {
        "kind": "server",
        "server": server.id,
        "url": server.url or "",
        "transport": server.server_type,
        "headers": tuple(sorted(server.headers)),
    }
    return facts | {"digest": canonical_json.digest(facts | {"headers": server.headers})}


def references_of(server: McpServer) -> tuple[Reference, ...]:
    """Return the references to values outside the project that a server's definition holds.

    They stand in what is granted, so that a grant of the server is one of these values for it.
    """
    texts = [server.command, *server.args, server.cwd, server.url]
    texts += [*server.env.values(), *server.headers.values()]
    return tuple(one for _, one in references([text for text in texts if text is not None]))


def command_line(argv: Sequence[str]) -> str:
    """Return a command as a shell takes it, on one line, its hidden characters escaped."""
    return display.in_line(shlex.join(argv))


def _files_of(server: McpServer, files: Mapping[str, str]) -> list[str]:
    """Return the toolset's files that belong to a program, sorted."""
    folders: set[str] = set()
    below = {parent for path in files for parent in _parents(path)}
    start = _plain(server.cwd or "")
    starts = {"", start} & below
    deepest = max((path.count("/") + 1 for path in files), default=0)
    for place in _places(server, starts, deepest):
        if place in below:
            folders.add(place)
        elif place in files:
            folders.add(posixpath.dirname(place))
    above = {"", *(parent for folder in folders for parent in _parents(folder))} if folders else ()
    for parent in above:
        folders.add(posixpath.join(parent, "node_modules"))
    packages = {posixpath.join(parent, "package.json") for parent in above}
    return sorted(
        path
        for path in files
        if path != _MANIFEST and (path in packages or not folders.isdisjoint(_parents(path)))
    )


def _places(server: McpServer, starts: Collection[str], deepest: int) -> Iterator[str]:
    """Yield the paths within the toolset that words of a program may mean, as a path or a module.

    Words are taken from the folders ``starts``, and by their ends of up to ``deepest`` parts.
    """
    if server.cwd is not None:
        yield _plain(server.cwd)
    for text in (server.command or "", *server.args, *server.env.values()):
        for word in {text, *_BETWEEN_WORDS.split(text)} - {""}:
            for path in (word, word.replace(".", "/"), f"{word.replace('.', '/')}.py"):
                yield from (_plain(posixpath.join(start, path)) for start in starts)
                yield from _ends(_plain(path), deepest)


def _ends(path: str, deepest: int) -> Iterator[str]:
    """Yield the ends of a path, up to so many parts: it may be meant from the project, or the root."""
    parts = path.rsplit("/", deepest)[-deepest:] if deepest else [path]
    for start in range(len(parts)):
        yield "/".join(parts[start:])


def _plain(path: str) -> str:
    """Return a path without detours, the toolset's own folder as an empty text."""
    plain = posixpath.normpath(path)
    return "" if plain == "." else plain


def _parents(path: str) -> Iterator[str]:
    """Yield the folders that a file lies in, the toolset's own as an empty text."""
    while path:
        path = posixpath.dirname(path)
        yield path
