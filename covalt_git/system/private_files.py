"""Private files of a user outside of projects; :func:`~.atomic_write.replace` writes them."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from covalt_git.errors import CovaltError

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def user_folder() -> Path:
    """Return the configuration folder of the user: ``$XDG_CONFIG_HOME/covalt-git``."""
    config = os.environ.get("XDG_CONFIG_HOME")
    folder = Path(config) if config and Path(config).is_absolute() else Path.home() / ".config"
    return folder / "covalt-git"


def cache_folder() -> Path:
    """Return the cache folder of the user: ``$XDG_CACHE_HOME/covalt-git``."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "covalt-git"
    cache = os.environ.get("XDG_CACHE_HOME")
    folder = Path(cache) if cache and Path(cache).is_absolute() else Path.home() / ".cache"
    return folder / "covalt-git"


def is_open_to_others(file: Path) -> bool:
    """Return whether other users can access a file of this user, so that narrowing its mode is enough to use it."""
    try:
        status = file.stat()
    except OSError:
        return False
    is_own = status.st_uid == os.geteuid() and stat.S_ISREG(status.st_mode)
    return is_own and bool(status.st_mode & _OTHERS)


def narrow(file: Path) -> bool:
    """Set mode 600 if other users can access a file of this user; return whether it was changed.

    Raises:
        OSError: if the mode cannot be changed.
    """
    if not is_open_to_others(file):
        return False
    # The file that was opened: another one may get its name meanwhile.
    handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if os.fstat(handle).st_uid != os.geteuid():
            return False
        os.fchmod(handle, stat.S_IRUSR | stat.S_IWUSR)
    finally:
        os.close(handle)
    return True


def read_private(file: Path, refusal: type[CovaltError]) -> str | None:
    """Return the text of a file that only its owner can access, or None if it does not exist.

    Raises:
        CovaltError: of the type ``refusal``, when other users can access it, or it cannot be read.
    """
    try:
        # O_NONBLOCK, because open() of a FIFO waits until another process opens it; the check below refuses a FIFO.
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, encoding="utf-8") as lines:  # noqa: PTH123 - a handle, not a path
            mode = os.fstat(handle).st_mode
            if not stat.S_ISREG(mode):
                raise refusal(f"{str(file)!r} is not a file")
            if mode & _OTHERS:
                raise refusal(
                    f"other users can access {str(file)!r}, so it is not used",
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
