"""What the programs of MCP servers are started from: the accepted packages, or the accepted program of the system."""

from __future__ import annotations

import hashlib
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from covalt_git.access.grants import granted
from covalt_git.calls.tool_grants import check_server_grant
from covalt_git.errors import CovaltError
from covalt_git.models.sources.package_command import is_interpreter, package_command
from covalt_git.models.sources.tool_lock import NO_DIGEST, LockedFile, LockedPackages
from covalt_git.system import programs
from covalt_git.system.file_cache import signature
from covalt_git.toolsets.toolset_copies import ToolsetCopy

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from covalt_git.models.sources.package_command import PackageCommand
    from covalt_git.models.toolset_manifest import McpServer
    from covalt_git.runtime.mcp_servers import PinnedProgram
    from covalt_git.runtime.server_packages.steps import Installer
    from covalt_git.toolsets.toolset import Toolset


class NotPinnedError(CovaltError):
    """A server without an accepted program: it would start files that the user has not reviewed."""

    code = "not_pinned"
    http_status = 409


class ProgramChangedError(CovaltError):
    """A program of the system that is not the accepted one."""

    code = "program_changed"
    http_status = 409


def pin(
    toolset: Toolset, server: McpServer, *, report: Callable[[str], None] = lambda _: None
) -> LockedPackages | LockedFile | None:
    """Return what the program of a granted server would be started from now: packages are resolved and installed.

    None for a URL, and for a program that runs the toolset's files.

    Raises:
        GrantNeededError: if the server is not granted.
        NotPinnableError: if its package has no version in a registry.
        CannotInstallError: if its packages cannot be installed.
    """
    from covalt_git.runtime.server_packages import cache  # noqa: PLC0415 - most commands install nothing

    command = package_command(server)
    if command is not None:
        check_server_grant(toolset, server)
        reading = toolset.locks.get(server.id)
        lock = None if reading is None else reading.value
        program = None if lock is None else lock.program
        previous = program if isinstance(program, LockedPackages) else None
        return cache.resolve(command, _installer(toolset, server, report), previous)
    path = _system_program(server)
    if path is None:
        return None
    check_server_grant(toolset, server)
    return LockedFile(digest=NO_DIGEST, kind="file", path=path, sha256=_sha256(Path(path))).pinned()


def pinned_program(
    toolset: Toolset,
    server: McpServer,
    *,
    report: Callable[[str], None] = lambda _: None,
    cancel: threading.Event | None = None,
) -> PinnedProgram | None:
    """Return what the program of a server is started from; packages are installed again if the cache lacks them.

    Raises:
        NotPinnableError: as :func:`pin`.
        NotPinnedError: if the lock has no accepted program for the declaration.
        ProgramChangedError: if the program of the system is not the accepted one.
        CannotInstallError: as :func:`pin`.
        InstallCancelledError: if ``cancel`` is set while they are installed.
    """
    command = package_command(server)
    path = None if command is not None else _system_program(server)
    if command is None and path is None:
        return None
    from covalt_git.runtime.mcp_servers import PinnedProgram  # noqa: PLC0415 - it loads the SDK
    from covalt_git.runtime.server_packages import cache  # noqa: PLC0415 - as above

    reading = toolset.locks.get(server.id)
    lock = None if reading is None else reading.value
    program = None if lock is None else lock.accepted_program(toolset.state.accepted)
    if command is not None:
        if not isinstance(program, LockedPackages) or not _is_of(program, command):
            raise _not_pinned(toolset, server, "packages")
        installer = _installer(toolset, server, report, cancel)
        installed = cache.installed(program, installer)
        return PinnedProgram(
            installed.argv,
            command.arguments,
            (installed.folder,),
            lambda: cache.held(program, installer),
        )
    assert path is not None
    if not isinstance(program, LockedFile):
        raise _not_pinned(toolset, server, f"program {path}")
    _check_file(toolset, server, program, path)

    def check() -> AbstractContextManager[None]:
        _check_file(toolset, server, program, path)
        return nullcontext()

    return PinnedProgram((path,), server.args, (), check)


def _is_of(program: LockedPackages, command: PackageCommand) -> bool:
    """Return whether a lock was made for the declared packages: an alias or another server may have had its name."""
    declared = (command.ecosystem, command.requirements, command.python)
    return (program.kind, program.requirements, program.python) == declared


def _not_pinned(toolset: Toolset, server: McpServer, what: str) -> NotPinnedError:
    return NotPinnedError(
        f"the {what} of the MCP server {server.id!r} of {toolset.id!r} are not pinned and accepted yet"
        if what == "packages"
        else f"the {what} of the MCP server {server.id!r} of {toolset.id!r} is not pinned and accepted yet",
        hint=f"covalt-git source refresh {toolset.id}/{_namespace(toolset, server)}",
    )


def _namespace(toolset: Toolset, server: McpServer) -> str:
    return toolset.state.aliases.get(server.id, server.id)


def _check_file(toolset: Toolset, server: McpServer, program: LockedFile, path: str) -> None:
    if path == program.path and _sha256(Path(path)) == program.sha256:
        return
    what = (
        f"{program.path} has changed"
        if path == program.path
        else f"is now {path}, not {program.path}"
    )
    raise ProgramChangedError(
        f"the program of the MCP server {server.id!r} of {toolset.id!r} is not the accepted one: {what}",
        hint=f"if you updated it: covalt-git source refresh {toolset.id}/{_namespace(toolset, server)}",
    )


def _system_program(server: McpServer) -> str | None:
    """Return the path of a server's program if it is neither the toolset's nor runs code that its arguments name."""
    command = server.command
    if command is None or is_interpreter(command) or "$" in command:
        return None
    # Relative paths are of the toolset, whose digest the grant covers.
    if "/" in command and not Path(command).is_absolute():
        return None
    return programs.find(command)


_DIGESTS: dict[str, tuple[str, str]] = {}


def _sha256(path: Path) -> str:
    """Return the digest of a file, which is read again only if its stat results have changed."""
    facts = signature(path)
    stored = _DIGESTS.get(str(path))
    if facts is not None and stored is not None and stored[0] == facts:
        return stored[1]
    with path.open("rb") as file:
        digest = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    if facts is not None:
        _DIGESTS[str(path)] = (facts, digest)
    return digest


def _installer(
    toolset: Toolset,
    server: McpServer,
    report: Callable[[str], None],
    cancel: threading.Event | None = None,
) -> Installer:
    from covalt_git.runtime.server_packages.steps import Installer  # noqa: PLC0415 - as above

    may = granted(toolset.id, toolset.state, toolset.digest)
    grant = may.program(server, toolset.files.hashes)
    return Installer(
        f"{toolset.id}/{_namespace(toolset, server)}",
        ToolsetCopy.of(toolset),
        unsandboxed=grant is not None and grant.sandbox is None,
        report=report,
        cancel=cancel or threading.Event(),
    )
