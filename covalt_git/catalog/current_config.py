"""The configuration of a project as its files are now, for decisions after a call has waited."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.manifests.project_config import read_config
from covalt_git.manifests.project_root import CONFIG
from covalt_git.system.file_cache import FileCache
from covalt_git.trust import Consents, trusted_config

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.models.project_config import ProjectConfig

_READ = FileCache()


def current_config(root: Path) -> ProjectConfig:
    """Return ``covalt.yaml`` without the permissions that the user of this machine has not trusted.

    Unchanged files are not read again.

    Raises:
        BrokenConfigError: if ``covalt.yaml`` has errors.
    """
    consents = Consents.of(root)
    files = [root / CONFIG, *consents.files]
    return _READ.get(root, files, lambda: trusted_config(read_config(root), consents))
