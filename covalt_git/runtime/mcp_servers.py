"""Definitions of MCP servers, as the manifests of their toolsets declare them.

References are replaced by their values here; values are never searched for references.  ``$workspace`` and
``$toolset`` (also in braces) are the chat's folder and that of the toolset's copy, so that a program starts
from the granted files.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.access.grants import rule_of
from covalt_git.access.loaded_code import Places, Refusal, refusals
from covalt_git.access.missing_scripts import missing_script
from covalt_git.connections.definition import Definition, Name
from covalt_git.errors import CovaltError
from covalt_git.hosts import BadHostError, HostRule, Reach, origin_of
from covalt_git.manifests.toolset_files import MANIFEST
from covalt_git.models.sources.server_definition import references_of
from covalt_git.models.toolset_state import WORKSPACE, WRITABLE
from covalt_git.runtime import sandbox_levels
from covalt_git.runtime.installations import PACKAGES
from covalt_git.runtime.personal_places import why_wide
from covalt_git.runtime.pool import ProgramSpec
from covalt_git.runtime.sandbox.system_files import FOLDERS
from covalt_git.runtime.sandbox_levels import SandboxNeededError
from covalt_git.system import private_files, programs
from covalt_git.templating.references import Reference, split
from covalt_git.toolsets.toolset_copies import ToolsetCopy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from covalt_git.access.grants import Granted
    from covalt_git.http_tools.secret_lookup import Lookup
    from covalt_git.models.tool_properties import Limits
    from covalt_git.models.toolset_manifest import McpServer
    from covalt_git.models.toolset_state import ProcessGrant, ProgramSandbox
    from covalt_git.toolsets.toolset import Toolset


class PinnedProgram(NamedTuple):
    """What the program of a server is started from.

    Attributes:
        argv: the beginning of its command.
        args: its arguments as declared.
        readable: the folders of its installation.
        check: checks its files before each start, and lets nothing remove them while it runs.
    """

    argv: tuple[str, ...]
    args: tuple[str, ...]
    readable: tuple[Path, ...]
    check: Callable[[], AbstractContextManager[None]]


def definition(
    toolset: Toolset,
    server: McpServer,
    *,
    root: Path,
    workspace: Path,
    chat_id: str | None,
    may: Granted,
    lookup: Lookup,
    limits: Limits | None = None,
    pinned: PinnedProgram | None = None,
    confinement: ProgramSandbox | None = None,
) -> Definition:
    """Return the definition of a server for a chat whose folder is ``workspace``; ``limits`` are of a program in the sandbox.

    ``pinned`` is what its program is started from, in place of its command.  ``confinement`` is what its program may
    use in the sandbox, in place of its grant.

    Raises:
        SecretMissingError: if a reference has no value.
        UnfitSecretError: if a value cannot be sent.
        CovaltError: ``server_in_project`` or ``server_in_workspace``, if it would load what can change there.
        BadHostError: if its URL has no valid host.
    """
    copy = ToolsetCopy.of(toolset)
    places = {"workspace": str(workspace.absolute()), "toolset": str(copy.folder)}

    def filled(text: str, value_of: Callable[[Reference], str | None] = lookup.lookup) -> str:
        return "".join(
            (value_of(piece) or "")
            if isinstance(piece, Reference)
            else Template(piece).safe_substitute(places)
            for piece in split(text)
        )

    def settings(
        texts: Mapping[str, str], value_of: Callable[[Reference], str | None] = lookup.lookup
    ) -> dict[str, str]:
        """Return variables or headers, without those that are optional and not set, as in HTTP tools."""
        result = {key: filled(text, value_of) for key, text in texts.items()}
        return {
            key: value for key, value in result.items() if value or not _is_optional(texts[key])
        }

    name = Name(root, toolset.id, server.id, chat_id)
    if server.url is None:
        grant = may.program(server, toolset.files.hashes)
        sandbox = confinement or (None if grant is None else grant.confinement)
        # The declared variables win, as they name the value that the author chose.
        also = {key: filled(f"${{{key}}}") for key in (sandbox.secrets if sandbox else ())}
        env = {**also, **settings(server.env)}
        if pinned is not None:
            server = server.model_copy(update={"command": pinned.argv[0], "args": pinned.args})
        launched = _launch(
            name,
            server,
            copy,
            workspace,
            filled,
            env,
            # The package's own file, not its interpreter, which would take the first argument for the script.
            program=None if pinned is None else pinned.argv[-1],
            sandboxed=sandbox is not None,
        )
        if pinned is None:
            launched = replace(launched, hint=_script_hint(server, toolset))
        if grant is not None:
            _check_covered(name, server, launched, copy, grant)
        if pinned is not None:
            argv = (*pinned.argv, *launched.argv[1:])
            launched = replace(launched, argv=argv, check=pinned.check)
        if sandbox is not None:
            readable = () if pinned is None else pinned.readable
            launched = _sandboxed(launched, sandbox, copy, workspace, readable, limits)
        return replace(launched, secrets=tuple(lookup.used.values()))
    url = filled(server.url)
    try:
        origin, _ = origin_of(url)
    except BadHostError:  # its message has the URL, and with it a secret
        raise BadHostError(
            f"{server.url!r} is not a URL once its references are filled in"
        ) from None
    rules = (HostRule.parse(rule_of(origin)), *may.reach.rules)
    # Filling in the headers can require a sign-in, so a server that may not get the token is refused before that.
    sign_ins = {piece.name for piece in references_of(server) if piece.place == "auth"}
    may.check_secrets(origin, sorted(sign_ins))
    headers = settings(server.headers, lookup.in_header)
    lookup.check_hosts(origin)
    # The grant of the server covers the secrets whose names it showed. A sign-in has a grant of its own, as has the
    # secret that its entry names in its place, which a pull can change.
    covered = {piece.name for piece in references_of(server)}
    may.check_secrets(origin, sorted(lookup.used.keys() - covered))
    return Definition(
        name,
        "sse" if server.server_type == "sse" else "streamable-http",
        url=url,
        headers=headers,
        reach=Reach(rules),
        workspace=workspace,
        secrets=tuple(lookup.used.values()),
    )


def _sandboxed(
    launched: Definition,
    sandbox: ProgramSandbox,
    copy: ToolsetCopy,
    workspace: Path,
    readable: tuple[Path, ...],
    limits: Limits | None,
) -> Definition:
    """Return a definition whose program starts in the sandbox.

    Raises:
        SandboxNeededError: if this machine has none.
        CovaltError: ``no_folder``, if a granted folder does not exist.
    """
    level = sandbox_levels.level()
    if not sandbox_levels.is_sandbox(level):
        name = launched.name
        raise SandboxNeededError(
            f"this machine has only the sandbox level 'process', too weak for the MCP server {name}",
            hint="`covalt-git doctor` shows what a stronger level needs; to run the server at this level: "
            f"covalt-git grant add {name.toolset_id} unsandboxed {name.server_id}",
        )
    texts = (*launched.argv, *launched.env.values())
    named = WORKSPACE in {folder.removesuffix(WRITABLE) for folder in sandbox.folders}
    sees_workspace = named or any(str(workspace.absolute()) in text for text in texts)
    folders = [folder for folder in sandbox.folders if folder.removesuffix(WRITABLE) != WORKSPACE]
    spec = ProgramSpec(
        level,
        copy,
        workspace.resolve() if sees_workspace else None,
        readable=(
            *readable,
            *(_folder(launched, text) for text in folders if not text.endswith(WRITABLE)),
        ),
        writable=tuple(_folder(launched, text) for text in folders if text.endswith(WRITABLE)),
        hosts=sandbox.hosts,
        limits=limits,
    )
    # A root that the server cannot see would mislead it.
    root = workspace if sees_workspace else None
    hint = launched.hint or _hidden_hint(
        launched, (copy.folder, workspace, *spec.readable, *spec.writable)
    )
    return replace(launched, sandbox=spec, toolset=copy, workspace=root, hint=hint)


def _script_hint(server: McpServer, toolset: Toolset) -> str:
    """Return a hint about a script that the command names and the toolset lacks."""
    missing = missing_script(server, toolset.files.hashes)
    return "" if missing is None else f"{missing.message}: {missing.hint}"


def _hidden_hint(launched: Definition, visible: Sequence[Path]) -> str:
    """Return a hint about the first argument that names a file which the sandbox does not show."""
    hidden = hidden_argument(launched.argv, visible)
    if hidden is None:
        return ""
    name, (path, folder) = launched.name, hidden
    return f"the sandbox does not show {str(path)!r}: " + (
        why_wide(folder)
        or f"covalt-git grant add {name.toolset_id} server {name.server_id} --folder {shlex.quote(str(folder))}"
    )


def hidden_argument(words: Sequence[str], visible: Sequence[Path]) -> tuple[Path, Path] | None:
    """Return the first of :func:`hidden_arguments`."""
    return next(hidden_arguments(words, visible), None)


def hidden_arguments(words: Sequence[str], visible: Sequence[Path]) -> Iterator[tuple[Path, Path]]:
    """Yield the arguments of a command that name files which the sandbox does not show, each with the folder to grant.

    ``visible`` are the paths that it shows besides those of the system.
    """
    if programs.find(words[0]) is None:
        return  # no folder for its arguments makes it start
    visible = (*visible, *map(Path, FOLDERS))
    for path in map(Path, words[1:]):
        if path.is_absolute() and path.exists() and not any(map(path.is_relative_to, visible)):
            folder = path if path.is_dir() else path.parent
            if PACKAGES in path.parts:  # a package loads others from there
                depth = path.parts.index(PACKAGES) + 1
                folder = Path(*path.parts[:depth])
            yield path, folder


def _folder(launched: Definition, text: str) -> Path:
    path = Path(text.removesuffix(WRITABLE)).expanduser()
    if not path.is_dir():
        name = launched.name
        raise CovaltError(
            f"the granted folder {str(path)!r} does not exist",
            hint=f"mkdir {shlex.quote(str(path))}, or revoke the grant, and grant the server another folder:"
            f" covalt-git grant revoke {name.toolset_id} server {name.server_id}",
            code="no_folder",
            http_status=409,
        )
    return path.resolve()


def _is_optional(text: str) -> bool:
    """Return whether a text is only a reference with an empty default."""
    pieces = split(text)
    return len(pieces) == 1 and isinstance(pieces[0], Reference) and pieces[0].default == ""


def _launch(
    name: Name,
    server: McpServer,
    copy: ToolsetCopy,
    workspace: Path,
    filled: Callable[[str], str],
    env: Mapping[str, str],
    *,
    program: str | None,
    sandboxed: bool,
) -> Definition:
    """Return how a stdio server is launched: its command, folder and environment.

    Paths of the toolset's folder, and words of the command that are files of the toolset, become paths in the copy.
    Without ``cwd`` it starts in an empty folder: in the toolset's, it could load other files than those it names.

    Raises:
        CovaltError: ``server_in_project`` or ``server_in_workspace``, if it would load what can change there;
            ``server_folder``, if it would start outside of the copy.
    """
    cwd = None if server.cwd is None else copy.folder / copy.in_copy(filled(server.cwd))
    start = cwd or private_files.cache_folder() / "servers" / "empty"
    places = Places(name.root.resolve(), copy.folder, workspace.absolute(), start)
    # Not by its end alone: a path through a link would be another one after the link has changed.
    if cwd is not None and not Path(os.path.normpath(cwd)).is_relative_to(copy.folder):
        where = sorted(places.named_in(str(cwd)))
        if where:
            raise _refused(name, server, Refusal(("cwd",), where[0], "files of its current folder"))
        raise CovaltError(
            f"the MCP server {name} would start in {server.cwd!r}, which is not in its toolset",
            hint=f"leave cwd out, or move the folder into toolsets/{name.toolset_id}",
            code="server_folder",
            http_status=409,
        )
    env = {variable: copy.in_copy(text) for variable, text in env.items()}
    command, *args = (copy.in_copy(filled(text)) for text in (server.command or "", *server.args))
    if cwd is None:
        paths = {file.path for file in copy.files}
        args = [str(copy.folder / word) if word in paths else word for word in args]
        if "/" in command and command in paths:
            command = str(copy.folder / command)
    # The program's file, as a folder of PATH can be in the project.
    program = program or programs.find(command) or command
    words = (program, *args)
    for refusal in refusals(words, env, places, sandboxed=sandboxed):
        # On a machine without a sandbox, tools can write everywhere, so the workspace is no worse than other places.
        if refusal.loaded or sandbox_levels.is_sandbox():
            raise _refused(name, server, refusal)
    texts = (command, *args, *env.values(), str(cwd))
    return Definition(
        name,
        "stdio",
        argv=(command, *args),
        cwd=cwd,
        env=env,
        toolset=copy if any(str(copy.folder) in text for text in texts) else None,
        workspace=workspace,
    )


def _refused(name: Name, server: McpServer, refusal: Refusal) -> CovaltError:
    message = f"the MCP server {name} is not started: {refusal.key} {refusal.why(server)}"
    hint = refusal.hint(name.toolset_id, server)
    if refusal.place == "project":
        return CovaltError(message, hint=hint, code="server_in_project", http_status=409)
    return CovaltError(message, hint=hint, code="server_in_workspace", http_status=409)


def _check_covered(
    name: Name, server: McpServer, launched: Definition, copy: ToolsetCopy, grant: ProcessGrant
) -> None:
    """Check that the grant covers all files of the toolset if a text names its folder once references are filled in.

    The grant's facts are of the declared texts, in which a reference can hide a path.
    """
    places = Places(name.root, copy.folder, copy.folder, copy.folder)
    files = {file.path for file in copy.files} - grant.files.keys()
    declared = dict(enumerate((server.command or "", *server.args))) | server.env
    for key, text in (dict(enumerate(launched.argv)) | dict(launched.env)).items():
        inner = [*places.of_copy(text)]
        # Of the manifest, the server's own definition is covered, which is enough if no text leads to the file.
        uncovered = sorted(files if Path(MANIFEST) in inner else files - {MANIFEST})
        if uncovered and inner:
            raise CovaltError(
                f"the MCP server {name} is not started: {declared.get(key, key)!r} is in its toolset, and its grant"
                f" does not cover {', '.join(map(repr, uncovered[:3]))}",
                hint="write the path without a reference, or $toolset in place of the toolset's folder",
                code="server_not_covered",
                http_status=409,
            )
