"""What a person keeps on this machine for all projects: outside of them, and nobody else's to read."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from covalt_git.errors import CovaltError

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def personal_folder() -> Path:
    """Return ``$XDG_CONFIG_HOME/covalt-git`` of whoever runs this process."""
    config = os.environ.get("XDG_CONFIG_HOME")
    folder = Path(config) if config and Path(config).is_absolute() else Path.home() / ".config"
    return folder / "covalt-git"


def read_personal(file: Path, refusal: type[CovaltError]) -> str | None:
    """Return the text of a file that only its owner may read or write, or None where there is none.

    Raises:
        CovaltError: of the kind ``refusal``, when others may, or it cannot be read.
    """
    try:
        with file.open(encoding="utf-8") as lines:
            if os.fstat(lines.fileno()).st_mode & _OTHERS:
                raise refusal(
                    f"others may read {str(file)!r}, so nothing is taken from it",
                    hint=f"chmod 600 {file}",
                )
            return lines.read()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise refusal(f"{str(file)!r} is not UTF-8") from None
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise refusal(f"{str(file)!r} cannot be read: {why}") from None


def write_personal(file: Path, text: str) -> None:
    """Have that text in a file that only its owner may read or write: all of it, or what was there.

    Raises:
        OSError: when it cannot be written.
    """
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)  # with mode 600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as written:
            written.write(text)
            written.flush()
            os.fsync(written.fileno())
        Path(temporary).replace(file)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
