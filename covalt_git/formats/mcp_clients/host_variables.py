"""Variables of hosts and references of ``toolset.yaml``, and each in the place of the other.

Each function has one text: of a host's file when it is read, of a toolset when it is written.  What a host does not
replace, such as ``${x}`` in a file of Zed, is plain text for it, so the dollar is escaped in ``toolset.yaml``.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final

from covalt_git.credentials.named_values import is_secret
from covalt_git.formats.http_texts import escaped
from covalt_git.formats.mcp_clients.process_variables import VARIABLES_OF_PROCESSES
from covalt_git.formats.model import variable_name
from covalt_git.templating.references import Reference, malformed, references, split
from covalt_git.text.display import shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from covalt_git.formats.mcp_clients.hosts import Host
    from covalt_git.formats.model import Part
    from covalt_git.json_values.pointer import Loc

_INPUT = re.compile(r"\$\{input:([^{}]+)\}")
_BRACES = re.compile(r"\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_STYLES_WITH_DEFAULTS: Final = frozenset({"${NAME}", "${input:name}"})
_BARE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")
_OF_CONTINUE = re.compile(r"\$\{\{\s*(?:secrets|inputs)\.([A-Za-z_][\w./-]*)\s*\}\}")
_PLACE = re.compile(
    r"\$(?:(?P<escaped>\$)|(?P<name>workspace|toolset)\b|\{(?P<braced>workspace|toolset)\})"
)
_OF_EDITOR = re.compile(
    r"\$\{(?P<name>userHome|CLAUDE_PROJECT_DIR|cwd|pathSeparator|/|execPath|lineNumber|columnNumber|selectedText|defaultBuildTask"
    r"|(?:workspace|file|relativeFile)[A-Z]\w*|file|relativeFile|config(?=:)|command(?=:))(?::[^{}]*)?\}"
)
"""The predefined variables of VS Code, which Cursor has too.

Source: code.visualstudio.com/docs/reference/variables-reference.
"""

FOLDERS_OUTSIDE: Final = {
    "userHome": "${env:HOME}",
    **dict.fromkeys(("pathSeparator", "/"), "/"),
}
"""The references in place of an editor's variables, without the folders that tools write in: for code."""

FOLDERS_OF_EDITOR: Final = {
    **dict.fromkeys(
        ("workspaceFolder", "workspaceRoot", "CLAUDE_PROJECT_DIR", "cwd"), "${workspace}"
    ),
    **FOLDERS_OUTSIDE,
}
"""The references in place of an editor's variables; the others have a value in the editor only, and stay texts."""

_FOLDERS_OF_PROJECT: Final = frozenset(
    {"CLAUDE_PROJECT_DIR", "workspaceFolder", "workspaceRoot", "userHome"}
)
"""The folders that people write in files of Claude Code too, in which other names are those of its environment."""

_OF_PROCESS: Final = re.compile(
    rf"(?<!\$)\$\{{(?=(?:{'|'.join(sorted(VARIABLES_OF_PROCESSES))})(?:\}}|:-))"
)


def without_blanks(text: str) -> str:
    """Return a text of a host's file without the blanks in its variables, such as ``${{ secrets.KEY }}``."""
    for variables in (_OF_CONTINUE, _INPUT):
        text = variables.sub(lambda variable: "".join(variable[0].split()), text)
    return text


def has_bare_references(host: Host, loc: Loc) -> bool:
    """Return whether a host replaces ``$NAME`` at a place of its file."""
    is_header = host.headers in loc or (bool(loc) and loc[-1] in host.urls)
    return (host.header_style if is_header and host.header_style else host.style) == "$NAME"


def folder_variables(host: Host, text: str) -> list[re.Match[str]]:
    """Return the predefined variables of the host in a text."""
    return [
        variable
        for variable in _OF_EDITOR.finditer(text)
        if host.folder or (host.reads_folders and variable["name"] in _FOLDERS_OF_PROJECT)
    ]


def to_reference(
    host: Host,
    inputs: Mapping[str, str],
    text: str,
    *,
    style: str = "",
    folders: Mapping[str, str] = FOLDERS_OF_EDITOR,
) -> str:
    """Return a text with references of ``toolset.yaml``; other dollars are escaped."""
    style = style or host.style
    text = _INPUT.sub(
        lambda variable: inputs.get(variable[1], f"${{{variable_name(variable[1])}}}"), text
    )
    if style == "{env:NAME}":
        text = _BRACES.sub(r"${env:\1}", text)
    elif style == "$NAME":
        text = _BARE.sub(r"${\1}", text)
    elif style == "${{ secrets.NAME }}":
        text = _OF_CONTINUE.sub(lambda variable: f"${{{variable_name(variable[1])}}}", text)
    if host.own_folder and host.own_folder in text:
        parts = text.split(host.own_folder)
        to_part = partial(to_reference, host, inputs, style=style, folders=folders)
        return "${toolset}".join(map(to_part, parts))
    pieces: list[str] = []
    end = 0
    # They look like variables of the environment, and would become secrets that the user has to set.
    for variable in folder_variables(host, text):
        name = variable["name"]
        other = folders.get(name, f"$${variable[0][1:]}")
        pieces += [_escaped(text[end : variable.start()]), other]
        end = variable.end()
    # The home folder is no secret, nor is the user's name, in whatever form a host has variables.
    return _OF_PROCESS.sub("${env:", "".join([*pieces, _escaped(text[end:])]))


def with_values_of(variables: Mapping[str, str], convert: Callable[[str], str], text: str) -> str:
    """Return a converted text with the values of a server's own variables in place of ``${NAME}``."""
    return "".join(
        variables.get(piece.name, piece.text) if isinstance(piece, Reference) else piece
        for piece in split(convert(text))
    )


def plain_variables(host: Host, url: str, credentials: Collection[str]) -> str:
    """Return a URL in which a variable without the name of a credential is no secret, so that its host is reviewable.

    The host has one form for variables and secrets; ``credentials`` are names that replace literal ones.
    """
    if host.style not in {"${NAME}", "$NAME"}:
        return url
    pieces = [
        piece if isinstance(piece, str) else _plain_variable(piece, credentials)
        for piece in split(url)
    ]
    return "".join(pieces)


def _plain_variable(reference: Reference, credentials: Collection[str]) -> str:
    name = reference.name
    if reference.place != "any" or name in credentials or is_secret(name):
        return reference.text
    return reference.text.replace("${", "${env:", 1)


def _escaped(text: str) -> str:
    plain = escaped(text)
    return plain if not malformed(plain) else escaped(text.replace("${", "$\0{")).replace("\0", "")


def from_reference(host: Host, part: Part) -> str:
    """Return a text with references in the form of the host."""
    text = part.use()
    named = [reference for _, reference in references(text)]
    names = [reference.name for reference in named]
    defaults = {
        reference.name: reference.default for reference in named if reference.default is not None
    }
    # Goose replaces variables in a server's URL too, and in nothing else.
    is_header = "url" in part.loc[-1:] or (len(part.loc) > 1 and part.loc[-2] == "headers")
    style = host.header_style if is_header and host.header_style else host.style
    if names and not style:
        listed = ", ".join(_with_default(name, defaults) for name in dict.fromkeys(names))
        part.drop(
            f"{host.title} does not replace variables here: write the value of {listed} into its file"
        )
    elif defaults and style not in _STYLES_WITH_DEFAULTS:
        listed = ", ".join(_with_default(name, defaults) for name in defaults)
        part.drop(f"{host.title} has no default of a variable here: set {listed}")
    folders = {place["name"] or place["braced"] for place in _PLACE.finditer(text)} - {None}
    folders -= {name for name in ("workspace", "toolset") if _folder_of(host, name)}
    if folders:
        listed = " or ".join(f"${name}" for name in sorted(folders))
        part.drop(f"{host.title} has no variable for {listed}: write the path into its file")
    return "".join(
        _PLACE.sub(partial(_folder, host), piece)
        if isinstance(piece, str)
        else _reference(style, piece)
        for piece in split(text)
    )


def secret_text(host: Host, name: str) -> str:
    """Return how a text of a host's file refers to a secret; as ``toolset.yaml`` does, if the host replaces none."""
    return _reference(host.style, Reference(name, "any", None, f"${{{name}}}"))


def _with_default(name: str, defaults: Mapping[str, str]) -> str:
    return f"{name} (by default {shorten(defaults[name], 100)!r})" if name in defaults else name


def _folder(host: Host, place: re.Match[str]) -> str:
    """Return what a host has for an escaped dollar, or for the variable of a folder."""
    if place["escaped"]:
        return "$"
    return _folder_of(host, place["name"] or place["braced"]) or place[0]


def _folder_of(host: Host, name: str) -> str:
    """Return the variable of a host for the folder of the chat or of the toolset; empty if it has none."""
    # Outside of a plugin, Claude Code does not set the variable.
    own = host.own_folder if not host.path or host.is_of_plugin else ""
    return host.folder if name == "workspace" else own


def _reference(style: str, reference: Reference) -> str:
    name = reference.name
    # A variable of VS Code's environment has no default, an input has.
    if style == "${input:name}" and (reference.place != "env" or reference.default is not None):
        return f"${{input:{name.lower()}}}"
    if style in {"${input:name}", "${env:NAME}"}:
        return f"${{env:{name}}}"
    if style == "{env:NAME}":
        return f"{{env:{name}}}"
    if style == "${{ secrets.NAME }}":
        return f"${{{{ secrets.{name} }}}}"
    if style == "${NAME}" and reference.default is not None:
        return f"${{{name}:-{reference.default}}}"
    return f"${{{name}}}"
