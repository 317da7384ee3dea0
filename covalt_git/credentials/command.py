"""Command that prints a project's secrets: ``secret_command`` of ``covalt.yaml``.

Another author may have written the checked-in command.  So it runs only after the user has allowed exactly
its arguments, for this project, on this machine.  Each permission is a file in the user's own folder, as
with direnv.  The program, and files that its arguments name, must be outside the project, where a pull could change
them.  Paths that a program computes, such as in the text of ``sh -c``, are not known.
"""

from __future__ import annotations

import os
import re
import selectors
import shlex
import subprocess
import time
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.errors import CovaltError
from covalt_git.json_values import canonical_json
from covalt_git.system import programs
from covalt_git.system.argument_paths import leads_into, paths
from covalt_git.system.node_folder import node_of
from covalt_git.system.private_files import user_folder
from covalt_git.trust import Consent, Consents, UnreadableConsentError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_SECONDS = 30.0  # the user may have to touch a security key
_MAX_VALUE = 64 << 10
_MAX_STDERR = 4 << 10
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FOLDER = "allowed-commands"


class SecretCommandError(CovaltError):
    """The command did not print a value.

    ``stderr`` is the command's output there.  It may contain the value: show it only at the terminal.
    """

    code = "secret_command"

    def __init__(self, message: str, *, hint: str = "", stderr: str = "") -> None:
        super().__init__(message, hint=hint)
        self.stderr = stderr


class CommandNotAllowedError(SecretCommandError):
    """The user has not allowed the command on this machine, or it has changed since."""

    code = "secret_command_not_allowed"
    http_status = 403


class SecretCommand(NamedTuple):
    """The command of the project in ``root``; ``seconds`` is its time limit."""

    root: Path
    argv: tuple[str, ...]
    seconds: float = _SECONDS

    @classmethod
    def of(cls, root: Path, argv: Sequence[str]) -> SecretCommand | None:
        """Return the command of a project; None if it has none."""
        return cls(node_of(root).resolve(), tuple(argv)) if argv else None

    def __str__(self) -> str:
        """Return the command quoted for a shell."""
        return shlex.join(self.argv)

    @property
    def is_allowed(self) -> bool:
        """Whether the user has allowed exactly this command for this project.

        Raises:
            SecretCommandError: if other users may read or write the file of the permission.
        """
        try:
            return self._consent.exists
        except UnreadableConsentError as error:
            raise SecretCommandError(error.message, hint=error.hint) from None

    def allow(self, reason: str | None = None) -> None:
        """Allow the command, as it is now, for this project.

        Raises:
            SecretCommandError: if its program does not exist, or it uses a file of the project.
            NotTrustedError: if ``data/`` of the project is another user's.
        """
        # First: a command that a pull can change must not even be allowed.
        self._checked(self.argv)
        Consents(self.root).identify()
        self._consent.give(reason)

    def forbid(self) -> bool:
        """Withdraw the permissions of all commands that the project has or had; return whether there was one.

        Otherwise a pull that restores an earlier command would let it run.
        """
        # forbid_all() skips files that it cannot read, but the current command must not stay permitted.
        current = self._consent.withdraw()
        return forbid_all(self.root) or current

    def ask(self, name: str) -> str | None:
        """Return the value that the command prints for a name, without the newline; None if it is empty.

        Raises:
            CommandNotAllowedError: if the user has not allowed the command as it is now.
            SecretCommandError: if it fails or its output is not text.
        """
        if not _NAME.fullmatch(name):
            raise SecretCommandError(f"{name!r} is not a valid name of a secret")
        self._check_allowed(name)
        program, *arguments = self.argv
        # With the name filled in, which can also complete a path.
        argv = self._checked([program, *(part.replace("{name}", name) for part in arguments)])
        code, output, stderr = self._run(argv, name)
        # The permission may have ended while the command waited for its user
        # (test_a_value_is_not_used_if_the_permission_ends_while_the_command_waits).
        self._check_allowed(name)
        if code:
            ended = f"exit code {code}" if code > 0 else f"signal {-code}"
            raise self._failed(f"ended with {ended}", name, _without(output, stderr))
        value = _value(output)
        if value is None:
            raise self._failed("printed output that is not UTF-8 text", name)
        return value or None

    def _check_allowed(self, name: str) -> None:
        if not self.is_allowed:
            raise CommandNotAllowedError(
                f"{name!r} comes from the secret_command of covalt.yaml, {str(self)!r},"
                " which is not allowed on this machine",
                hint="check the command; if you trust it: covalt-git secret allow",
            )

    @property
    def _consent(self) -> Consent:
        fact = {"argv": list(self.argv), **Consents(self.root).project}
        name = f"{canonical_json.digest(fact).partition(':')[2]}.json"
        return Consent(user_folder() / _FOLDER / name, fact)

    def _checked(self, argv: Sequence[str]) -> list[str]:
        """Return a command with the path of its program; checks that it uses no file of the project.

        Links may have changed since the command was allowed, so this is checked at each run.
        """
        name, *arguments = argv
        program = programs.find(name)
        if program is None:
            raise SecretCommandError(
                f"the secret_command of covalt.yaml cannot run: there is no program {name!r}",
                hint="use a program in an absolute folder of PATH, or its absolute path",
            )
        for part in (program, *arguments):
            if any(leads_into(path, self.root) for path in paths(part)):
                raise SecretCommandError(
                    f"the secret_command of covalt.yaml uses {part!r}, which is in the project:"
                    " a pull could change it",
                    hint="move it out of the project, and use its absolute path",
                )
        return [program, *arguments]

    def _run(self, argv: Sequence[str], name: str) -> tuple[int, bytes, bytes]:
        """Return exit code, stdout, and the part of stderr that may be shown."""
        try:
            process = programs.start(
                argv,
                env=os.environ,
                # A command that asks at the terminal would take the input of covalt-git, or of its MCP host.
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except OSError as error:
            raise self._failed(f"cannot run: {(error.strerror or '').lower()}", name) from None
        output, stderr = bytearray(), bytearray()
        ends = time.monotonic() + self.seconds
        with process, selectors.DefaultSelector() as selector:
            assert process.stdout is not None
            assert process.stderr is not None
            # Both at once: a program that fills one pipe waits until it is read.
            selector.register(process.stdout, selectors.EVENT_READ, output)
            selector.register(process.stderr, selectors.EVENT_READ, stderr)
            try:
                while selector.get_map():
                    for key, _ in selector.select(max(ends - time.monotonic(), 0)):
                        if not (chunk := os.read(key.fd, _MAX_VALUE)):
                            selector.unregister(key.fileobj)
                        key.data.extend(chunk)
                    if len(output) > _MAX_VALUE:
                        raise self._failed(f"printed more than {_MAX_VALUE >> 10} KiB", name)
                    if time.monotonic() >= ends:
                        message = f"took longer than {self.seconds:g} s"
                        raise self._failed(message, name, _without(output, stderr))
                    # Read on, but not kept: a program that prints without end must not fill the memory.
                    del stderr[_MAX_STDERR:]
                code = process.wait(max(ends - time.monotonic(), 0))
            except subprocess.TimeoutExpired:
                raise self._failed(f"took longer than {self.seconds:g} s", name) from None
            finally:
                # Also after an error, so that no command outlives its request for the value.
                process.kill()
        return code, bytes(output), bytes(stderr)

    def _failed(self, why: str, name: str, stderr: str = "") -> SecretCommandError:
        return SecretCommandError(
            f"the secret_command of covalt.yaml for {name!r} {why}",
            hint=f"covalt-git secret check {name}",
            stderr=stderr,
        )


def forbid_all(root: Path) -> bool:
    """Withdraw the permissions of all commands that a project has or had; return whether there was one."""
    withdrawn = False
    for file in (user_folder() / _FOLDER).glob("*.json"):
        # By the path alone, so that every command that was ever allowed there ends.
        consent = Consent(file, {"project": str(node_of(root).resolve())})
        try:
            is_of_project = consent.exists
        except UnreadableConsentError:
            continue  # it permits nothing
        if is_of_project:
            withdrawn |= consent.withdraw()
    return withdrawn


def _value(output: bytes) -> str | None:
    """Return the output as a value; None if it is not text."""
    try:
        text = output.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text.removesuffix("\n").removesuffix("\r")


def _without(output: bytes | bytearray, stderr: bytes | bytearray) -> str:
    """Return the stderr without the words of the printed value."""
    text = stderr.decode("utf-8", "replace").strip()
    for word in sorted(output.decode("utf-8", "replace").split(), key=len, reverse=True):
        text = text.replace(word, "***")
    # A stderr that was cut off can end with a part of the value, which no word of the value matches.
    return text if len(stderr) < _MAX_STDERR else re.sub(r"\S*\Z", "…", text)
