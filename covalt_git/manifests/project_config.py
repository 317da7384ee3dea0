"""Reader of ``covalt.yaml``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.json_values import canonical_json
from covalt_git.manifests.machine_folders import config_link
from covalt_git.manifests.project_root import CONFIG
from covalt_git.manifests.reading import Reading, read_yaml, shown_path
from covalt_git.models.project_config import ProjectConfig
from covalt_git.system.file_cache import FileCache

if TYPE_CHECKING:
    from pathlib import Path

MOST_KEY_BYTES = 256 << 10
"""Maximum size of a JWKS, in bytes."""


_READ = FileCache()


class BrokenConfigError(CovaltError):
    """``covalt.yaml`` is invalid, so permissions and limits are unknown."""

    code = "broken_config"


class RestartNeededError(CovaltError):
    """``covalt.yaml`` has settings of several machines, which this server could not read at its start."""

    code = "restart_needed"
    http_status = 503

    def __init__(self) -> None:
        super().__init__(
            f"this server began while {CONFIG} had errors, and the file now has chats or a project on a git server",
            hint="stop the server, and start it again: covalt-git serve",
        )


_BEGUN_ALONE: set[Path] = set()
"""Projects whose servers began in this process without the file, as those of one machine."""


def begin_alone(root: Path) -> None:
    """Note that a server of this process begins without knowing its ``covalt.yaml``.

    The sessions, the keys of previews and the feed of such a server are those of one machine, until its end.
    """
    _BEGUN_ALONE.add(root)


def unchanged_config(root: Path) -> ProjectConfig:
    """Return the same as :func:`read_config`; an unchanged file is not read again.

    The digests of key files are those of the last read.

    Raises:
        BrokenConfigError: with all problems of the file.
    """
    config: ProjectConfig = _READ.get(root, [root / CONFIG], lambda: read_config(root))
    return config


def read_config(root: Path) -> ProjectConfig:
    """Return the configuration of the project.

    Raises:
        BrokenConfigError: with all problems of the file.
        RestartNeededError: if it has settings that a server of this process could not read at its start.
    """
    reading = config_reading(root)
    if reading.value is None:
        raise BrokenConfigError(
            f"{CONFIG} has errors", hint="covalt-git validate", problems=reading.problems
        )
    config = reading.value
    if root in _BEGUN_ALONE and (config.storage.type == "git" or config.project is not None):
        raise RestartNeededError
    return config


def startup_config(root: Path) -> ProjectConfig:
    """Return the settings that a server needs at its start: the defaults while ``covalt.yaml`` has errors.

    They permit nothing more: the server listens on this machine only, and each request reads the file again.
    """
    return config_reading(root).value or ProjectConfig(version=1)


def is_alone(root: Path) -> bool:
    """Return whether a ``covalt.yaml`` with errors can only be that of a project on one machine."""
    reading = config_reading(root)
    if reading.document is not None:
        data = reading.document.data
        return not isinstance(data, dict) or not {"storage", "project"} & data.keys()
    try:
        content = (root / CONFIG).read_bytes()
    except OSError:
        return False
    return b"storage" not in content and b"project" not in content


def config_reading(root: Path) -> Reading[ProjectConfig]:
    """Return the configuration of the project with its problems, which are not raised.

    A link is not read: it may lead to any file of the user, which the problems would quote.
    """
    link = config_link(root)
    if link is not None:
        return Reading(CONFIG, None, None, (link,))
    reading = read_yaml(root / CONFIG, shown_path(root / CONFIG, root), ProjectConfig)
    if reading.value is None or not reading.value.issuers:
        return reading
    return replace(reading, value=with_key_digests(root, reading.value))


def with_key_digests(root: Path, config: ProjectConfig) -> ProjectConfig:
    """Return the configuration with the digests of the key files of its issuers, as they are now."""
    if not config.issuers:
        return config
    names = {issuer.jwks_file for issuer in config.issuers if issuer.jwks_file is not None}
    contents = {name: key_file(root, name) for name in names}
    return config.with_key_digests(
        {
            name: canonical_json.digest_bytes(content)
            for name, content in contents.items()
            if content is not None
        }
    )


def key_file(root: Path, name: str) -> bytes | None:
    """Return the content of an issuer's key file; None if it is missing, too large, or outside of the project."""
    try:
        file = (root / name).resolve(strict=True)
        if not file.is_relative_to(root.resolve()) or not file.is_file():
            return None
        with file.open("rb") as stream:
            content = stream.read(MOST_KEY_BYTES + 1)
    except (OSError, ValueError, RuntimeError):
        return None
    return content if len(content) <= MOST_KEY_BYTES else None
