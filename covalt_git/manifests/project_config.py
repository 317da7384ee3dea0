"""Reader of ``covalt.yaml``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.manifests.machine_folders import config_link
from covalt_git.manifests.project_root import CONFIG
from covalt_git.manifests.reading import Reading, read_yaml, shown_path
from covalt_git.models.project_config import ProjectConfig

if TYPE_CHECKING:
    from pathlib import Path


class BrokenConfigError(CovaltError):
    """``covalt.yaml`` is invalid, so permissions and limits are unknown."""

    code = "broken_config"


def read_config(root: Path) -> ProjectConfig:
    """Return the configuration of the project.

    Raises:
        BrokenConfigError: with all problems of the file.
    """
    reading = config_reading(root)
    if reading.value is None:
        raise BrokenConfigError(
            f"{CONFIG} has errors", hint="covalt-git validate", problems=reading.problems
        )
    return reading.value


def config_reading(root: Path) -> Reading[ProjectConfig]:
    """Return the configuration of the project with its problems, which are not raised.

    A link is not read: it may lead to any file of the user, which the problems would quote.
    """
    link = config_link(root)
    if link is not None:
        return Reading(CONFIG, None, None, (link,))
    return read_yaml(root / CONFIG, shown_path(root / CONFIG, root), ProjectConfig)
