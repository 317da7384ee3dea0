"""Steps of an installation: programs such as npm and pip, run in the sandbox with the registry as their only host."""

from __future__ import annotations

import contextlib
import os
import re
import select
import subprocess
import threading
import time
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.access.grants import rule_of
from covalt_git.hosts import HostRule, is_local, origin_of, resolve
from covalt_git.runtime import sandbox_levels
from covalt_git.runtime.environments import CannotInstallError, InstallCancelledError
from covalt_git.runtime.installations import installation
from covalt_git.runtime.pool import ProgramSpec
from covalt_git.runtime.sandbox_levels import SandboxNeededError
from covalt_git.system import programs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from covalt_git.toolsets.toolset_copies import ToolsetCopy

MOST_S = 900.0
"""Seconds that one step may take."""

_LOOK_S = 0.2
_READ = 1 << 16
_MOST_OUTPUT = 1 << 20
_CREDENTIALS = r"//[^/@\s]+@"
_STATUS = ".status"
_SHELL = 'cd "$0" && "$@"; echo $? > "$0/' + _STATUS + '"'
_CERTIFICATES = ("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR", "PIP_CERT")
"""Variables of the user that name files of certificates, which the installers need to trust a registry."""


class Output(NamedTuple):
    """What a step printed, without credentials of URLs, and whether it succeeded."""

    text: str
    succeeded: bool


class Installer(NamedTuple):
    """How the packages of a server are installed.

    Attributes:
        name: of the server, such as ``gear/disk``.
        toolset: the copy of its toolset, which the sandbox shows.
        unsandboxed: whether the server is granted to run without a sandbox; its installers may then do so too, on a
            machine without the level ``full``.
        report: receives lines about the progress.
        cancel: ends the installation when it is set.
    """

    name: str
    toolset: ToolsetCopy
    unsandboxed: bool = False
    report: Callable[[str], None] = lambda _: None
    cancel: threading.Event = threading.Event()

    def run(
        self,
        argv: Sequence[str],
        folder: Path,
        hosts: Sequence[str] = (),
        *,
        env: Mapping[str, str],
        readable: Sequence[Path] = (),
    ) -> Output:
        """Run a program in ``folder``, which it may write, with access to ``hosts``.

        It receives ``env``, and none of the user's other variables or files.

        Raises:
            SandboxNeededError: if this machine has no level with a proxy, and the server no grant without a sandbox.
            InstallCancelledError: if it was cancelled.
            CannotInstallError: if the program does not exist, or does not end in time.
        """
        path = programs.find(argv[0])
        if path is None:
            raise CannotInstallError(
                f"the packages of {self.name} cannot be installed: there is no program {argv[0]!r}",
                hint="install Node.js with npm" if argv[0] == "npm" else f"install {argv[0]}",
            )
        certificates = {name: os.environ[name] for name in _CERTIFICATES if name in os.environ}
        variables = {"PATH": programs.search_path(), **certificates, **env}
        command = ["/bin/sh", "-c", _SHELL, str(folder), path, *argv[1:]]
        status = folder / _STATUS
        status.unlink(missing_ok=True)
        output, end = os.pipe()
        level = sandbox_levels.level()
        if level == "full":
            paths = (*readable, *installation(Path(path)), *map(Path, certificates.values()))
            text = self._in_sandbox(
                ProgramSpec(
                    level,
                    self.toolset,
                    readable=tuple(path.resolve() for path in paths if path.exists()),
                    writable=(folder,),
                    hosts=tuple(hosts),
                ),
                command,
                variables,
                (output, end),
            )
        elif self.unsandboxed:
            text = self._plainly(command, variables, (output, end))
        else:
            os.close(output)
            os.close(end)
            toolset_id, _, server = self.name.partition("/")
            raise SandboxNeededError(
                f"the packages of {self.name} are installed only in the sandbox level 'full', which this machine"
                " does not have",
                hint="`covalt-git doctor` shows what it needs; to install and run the server without it: "
                f"covalt-git grant add {toolset_id} unsandboxed {server}",
            )
        succeeded = status.exists() and status.read_text(encoding="utf-8").strip() == "0"
        status.unlink(missing_ok=True)
        return Output(re.sub(_CREDENTIALS, "//***@", text), succeeded)

    def _in_sandbox(
        self,
        spec: ProgramSpec,
        command: Sequence[str],
        env: Mapping[str, str],
        ends: tuple[int, int],
    ) -> str:
        output, end = ends
        nothing = os.open(os.devnull, os.O_RDWR)
        try:
            # Its own home is /tmp, which ends with the step.
            program = spec.start(command, env, None, (nothing, end, end))
        except BaseException:
            os.close(output)
            raise
        finally:
            os.close(nothing)
            os.close(end)
        try:
            return self._read(output)
        finally:
            program.end()

    def _plainly(
        self, command: Sequence[str], env: Mapping[str, str], ends: tuple[int, int]
    ) -> str:
        output, end = ends
        home = {name: os.environ[name] for name in ("HOME", "TMPDIR") if name in os.environ}
        try:
            program = programs.start(
                command,
                env={**home, **env},
                stdin=subprocess.DEVNULL,
                stdout=end,
                stderr=end,
                start_new_session=True,
            )
        except BaseException:
            os.close(output)
            raise
        finally:
            os.close(end)
        with program:
            try:
                return self._read(output)
            finally:
                program.kill()

    def _read(self, output: int) -> str:
        """Read the output of a step until it ends."""
        chunks = bytearray()
        until = time.monotonic() + MOST_S
        with os.fdopen(output, "rb", 0) as file:
            while True:
                if self.cancel.is_set():
                    raise InstallCancelledError("the installation was cancelled and removed")
                if time.monotonic() > until:
                    raise CannotInstallError(
                        f"the packages of {self.name} were not installed within {MOST_S:.0f} s",
                        hint="check the registry, then try again",
                    )
                if not select.select([file], [], [], _LOOK_S)[0]:
                    continue
                chunk = file.read(_READ)
                if not chunk:
                    return chunks.decode("utf-8", "replace")
                chunks += chunk
                del chunks[:-_MOST_OUTPUT]


def registry_hosts(url: str, *, private: bool = True) -> tuple[str, ...]:
    """Return the rules that permit the requests of an installer to a registry.

    The user's configuration names the registry, so it may be in a private network; a host that only an index
    names may be only if the index is too (``private``).

    Raises:
        BadHostError: if the URL is invalid.
    """
    origin, _ = origin_of(url)
    networks: list[str] = []
    if private and not is_local(origin.host):
        with contextlib.suppress(OSError):  # the installer reports it
            addresses = resolve(origin.host, origin.port)
            networks = [str(ip_network(address)) for address in addresses if is_local(address)]
    return (rule_of(origin), *networks)


def is_private(hosts: Sequence[str]) -> bool:
    """Return whether a registry with these rules is in a private network."""
    return any(
        rule.network is not None or is_local(rule.host) for rule in map(HostRule.parse, hosts)
    )


def failure(name: str, output: Output) -> CannotInstallError:
    """Return the error of a step that failed, with the reason from its output."""
    for words, (what, hint) in _REASONS.items():
        line = next(filter(re.compile(words).search, output.text.splitlines()), None)
        if line is not None:
            return CannotInstallError(
                f"the packages of {name} cannot be installed: {what}: {_line(line)}", hint=hint
            )
    lines = [line for line in output.text.splitlines() if re.search("(?i)error|err!", line)]
    last = lines or [line for line in output.text.splitlines() if line.strip()] or ["no output"]
    return CannotInstallError(
        f"the packages of {name} cannot be installed: {'; '.join(map(_line, last[-3:]))}",
        hint="check the declared package",
    )


def _line(text: str) -> str:
    """Return a line of an installer, without what npm writes before each line."""
    line = re.sub(r"^(npm (error|ERR!)|ERROR:) (code |notarget |404 +)?", "", text.strip())
    # pip lists all versions, the newest last.
    return re.sub(
        r"\(from versions: ([^)]*)\)",
        lambda match: f"(newest versions: {', '.join(match[1].split(', ')[-_MOST_VERSIONS:])})",
        line,
    )


_MOST_VERSIONS = 5
_MISSING = "the registry does not have it"
_REASONS = {
    r"EINTEGRITY|DO NOT MATCH THE HASHES|integrity checksum failed": (
        "the registry has other bytes than the pinned hashes",
        "compare the package with its publisher; `covalt-git source refresh` shows what the registry has now",
    ),
    "ENOSPC|No space left|EFBIG|File too large|EDQUOT|quota exceeded": (
        "the disk is full",
        "make room, then try again",
    ),
    "ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|Connection refused"
    "|Failed to establish a new connection|Temporary failure|Tunnel connection failed|unreachable"
    "|URLError|Connection(Reset|Aborted)": (
        "the registry cannot be reached",
        "go online, or check the registry of `npm config list` or `pip config list`",
    ),
    "E401|E403|401 Unauthorized|403 Forbidden|HTTP Error 40[13]": (
        "the registry refuses the request",
        "log in to the registry with npm, or write the user into the URL of pip's index",
    ),
    "requires? a different [Pp]ython": (
        "it is for another Python",
        "install that Python, and declare it before the package: --python 3.12",
    ),
    "is not in this registry|[Rr]equested resource|No matching version found|404 Not Found - GET": (
        _MISSING,
        "correct the package and its version; `npm view PACKAGE versions` lists its versions",
    ),
    "ETARGET|E404": (_MISSING, "correct the package and its version"),
    "Could not find a version that satisfies|No matching distribution|HTTP Error 404": (
        _MISSING,
        "correct the package and its version; of PyPI only wheels for this Python are installed",
    ),
}
"""Reasons and hints for the output of installers, by a regular expression."""
