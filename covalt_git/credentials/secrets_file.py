"""Writer of the secrets file of the user of this machine; :mod:`.values` reads it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from covalt_git.credentials.values import ENTRY, SecretsFileError
from covalt_git.errors import CovaltError
from covalt_git.system import atomic_write, file_lock
from covalt_git.system.private_files import narrow, read_private

if TYPE_CHECKING:
    from pathlib import Path

_COMMENT = (
    "# Values of secrets for covalt-git, as NAME=value. Only you may read this file (mode 600).\n"
)


def write_value(file: Path, name: str, value: str) -> bool:
    """Set the value of a name; all other lines and comments stay as they are.

    If other users could read the file, only its owner can afterwards, and the result is true: a user who stores a value
    there wants nothing else, and a value that was typed is not lost.

    Raises:
        SecretsFileError: if the file exists and cannot be used, or cannot be written.
        CovaltError: ``invalid_value``, if a line of the file cannot store the value.
    """
    if not value or re.search(r"[\0\r\n]", value):
        raise CovaltError(
            f"the value of {name} must be one line of text" if value else f"{name} needs a value",
            code="invalid_value",
            http_status=400,
        )
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The lock of the folder: the file itself is replaced, and two writers would lose the line of one.
        with file_lock.held(file.parent):
            was_open = narrow(file)
            text = read_private(file, SecretsFileError)
            # Quotes, because the reader removes spaces and quotes at the ends of a value.
            entry = f"{name}='{value}'"
            atomic_write.replace(
                file, _with_entry(_COMMENT if text is None else text, name, entry), private=True
            )
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise SecretsFileError(f"{str(file)!r} cannot be written: {why}") from None
    return was_open


def _with_entry(text: str, name: str, entry: str) -> str:
    """Return the text with the entry in place of the first one of this name, and without further ones."""
    lines, is_written = [], False
    for line in text.removesuffix("\n").split("\n") if text else ():
        match = re.fullmatch(ENTRY, line)
        if match is None or match["name"] != name or line.lstrip().startswith("#"):
            lines.append(line)
        elif not is_written:
            lines.append(entry)
            is_written = True
    return "\n".join([*lines, *([] if is_written else [entry])]) + "\n"
