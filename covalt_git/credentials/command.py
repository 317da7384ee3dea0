"""The command that prints a project's secrets, as ``secret_command`` of ``covalt.yaml`` names it.

It is checked in, so that somebody else may have written it: it runs once a person has allowed exactly
its arguments, for exactly this project, on this machine, and never before.  What is allowed lies in
the person's own folder, a file each, as direnv does it.  What the command runs must not lie in the
project, where the next pull could change it.
"""

from __future__ import annotations

import json
import os
import re
import selectors
import shlex
import shutil
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.errors import CovaltError
from covalt_git.json_values import canonical_json
from covalt_git.system import atomic_write
from covalt_git.system.private_files import read_private, user_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

_SECONDS = 30.0  # somebody may have to touch a key
_MAX_VALUE = 64 << 10
_MAX_SAID = 4 << 10
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FOLDER = "allowed-commands"


class SecretCommandError(CovaltError):
    """The command does not print a value.

    ``said`` is what it wrote on its error stream: for the person at the terminal alone, because it
    may hold the value.
    """

    code = "secret_command"

    def __init__(self, message: str, *, hint: str = "", said: str = "") -> None:
        super().__init__(message, hint=hint)
        self.said = said


class CommandNotAllowedError(SecretCommandError):
    """Nobody allowed the command on this machine, or another one than it is now."""

    code = "secret_command_not_allowed"
    http_status = 403


class SecretCommand(NamedTuple):
    """The command of the project in ``root``; ``seconds`` is how long it may take."""

    root: Path
    argv: tuple[str, ...]
    seconds: float = _SECONDS

    @classmethod
    def of(cls, root: Path, argv: Sequence[str]) -> SecretCommand | None:
        """Return the command of a project, or None where it has none."""
        return cls(root.resolve(), tuple(argv)) if argv else None

    def __str__(self) -> str:
        """Return the command as it would be typed."""
        return shlex.join(self.argv)

    @property
    def is_allowed(self) -> bool:
        """Whether the person at this machine allowed exactly this command for this project.

        Raises:
            SecretCommandError: when others may read or write what says so.
        """
        return read_private(self._consent, SecretCommandError) == self._text

    def allow(self) -> None:
        """Note that it may run for this project, as it is now.

        Raises:
            SecretCommandError: when what it runs is not there, or lies in the project.
        """
        self._program()
        atomic_write.replace(self._consent, self._text, private=True)

    def forbid(self) -> bool:
        """Take that back; return whether it was allowed."""
        was_there = self._consent.exists()
        self._consent.unlink(missing_ok=True)
        return was_there

    def ask(self, name: str) -> str | None:
        """Return the value of a name, without the line's end, or None where nothing is printed.

        Raises:
            CommandNotAllowedError: when nobody allowed the command as it is.
            SecretCommandError: when it fails, or prints what is no value.
        """
        if not _NAME.fullmatch(name):
            raise SecretCommandError(f"{name!r} is no name of a secret")
        if not self.is_allowed:
            raise CommandNotAllowedError(
                f"{name!r} would come from the secret_command of covalt.yaml, {str(self)!r},"
                " which nobody allowed on this machine as it is",
                hint="look at it, and if it is yours: covalt-git secret allow",
            )
        argv = [self._program(), *(part.replace("{name}", name) for part in self.argv[1:])]
        code, output, said = self._run(argv, name)
        if code:
            ended = f"exit code {code}" if code > 0 else f"signal {-code}"
            raise self._failed(f"ended with {ended}", name, _without(output, said))
        value = _value(output)
        if value is None:
            raise self._failed("printed what is no text", name)
        return value or None

    @property
    def _text(self) -> str:
        allowed = {"argv": list(self.argv), "project": str(self.root)}
        return json.dumps(allowed, indent=2, ensure_ascii=True) + "\n"

    @property
    def _consent(self) -> Path:
        digest = canonical_json.digest({"argv": list(self.argv), "project": str(self.root)})
        return user_folder() / _FOLDER / f"{digest.partition(':')[2]}.json"

    def _program(self) -> str:
        """Return the file that runs, after a look at where it and its arguments lie."""
        name = self.argv[0]
        found = shutil.which(name) if "/" not in name or Path(name).is_absolute() else None
        if found is None or not Path(found).is_absolute():
            raise SecretCommandError(
                f"the secret_command of covalt.yaml cannot run: there is no program {name!r}",
                hint="name one that is on PATH, or its whole path",
            )
        for part in (found, str(Path(found).resolve()), *self.argv[1:]):
            if Path(part).is_absolute() and Path(os.path.normpath(part)).is_relative_to(self.root):
                raise SecretCommandError(
                    f"the secret_command of covalt.yaml would run {part!r}, which is in the project:"
                    " a pull could change it",
                    hint="keep it outside, and name its whole path",
                )
        return found

    def _run(self, argv: Sequence[str], name: str) -> tuple[int, bytes, bytes]:
        """Return exit code, output and error stream; of the last no more than is ever shown."""
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd="/",  # where no argument is a file of the project by accident
            )
        except OSError as error:
            raise self._failed(f"cannot run: {(error.strerror or '').lower()}", name) from None
        output, said = bytearray(), bytearray()
        ends = time.monotonic() + self.seconds
        with process, selectors.DefaultSelector() as selector:
            assert process.stdout is not None
            assert process.stderr is not None
            selector.register(process.stdout, selectors.EVENT_READ, output)
            selector.register(process.stderr, selectors.EVENT_READ, said)
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
                        raise self._failed(message, name, _without(output, said))
                    del said[_MAX_SAID:]
                code = process.wait(max(ends - time.monotonic(), 0))
            except subprocess.TimeoutExpired:
                raise self._failed(f"took longer than {self.seconds:g} s", name) from None
            finally:
                process.kill()
        return code, bytes(output), bytes(said)

    def _failed(self, why: str, name: str, said: str = "") -> SecretCommandError:
        return SecretCommandError(
            f"the secret_command of covalt.yaml, asked for {name!r}, {why}",
            hint=f"covalt-git secret check {name}",
            said=said,
        )


def _value(output: bytes) -> str | None:
    """Return what was printed as a value, or None where it is none."""
    try:
        text = output.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text.removesuffix("\n").removesuffix("\r")


def _without(output: bytes | bytearray, said: bytes | bytearray) -> str:
    """Return what was said on the error stream, without the words that were printed as the value."""
    text = said[:_MAX_SAID].decode("utf-8", "replace").strip()
    for word in sorted(output.decode("utf-8", "replace").split(), key=len, reverse=True):
        text = text.replace(word, "***")
    return text
