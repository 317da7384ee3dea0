"""The configuration of a project as its files are now, for decisions after a call has waited."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.manifests.project_config import unchanged_config, with_key_digests
from covalt_git.models.project_config import CommitKey
from covalt_git.models.storage_config import GitStorage
from covalt_git.system.node_folder import node_of
from covalt_git.trust import Consents, trusted_config

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.models.project_config import ProjectConfig


def current_config(root: Path) -> ProjectConfig:
    """Return ``covalt.yaml`` without the permissions that the user of this machine has not trusted.

    An unchanged file is not read again, but trust is asked for each time: it depends on consents and on what the
    repository has recorded, and a pull that changes neither ``covalt.yaml`` nor a consent can end it.

    Raises:
        BrokenConfigError: if ``covalt.yaml`` has errors.
    """
    config = unchanged_config(root)
    # Each time, as trust: a pull may change a key file and not covalt.yaml.
    config = with_key_digests(root, config)
    config = trusted_config(config, Consents.of(root))
    file = config.audit.sign_key
    key = None if file is None else CommitKey(node_of(root), file, config.trusts_sign_key)
    storage = None
    if config.storage.type == "git":
        node = node_of(root)
        storage = GitStorage(
            node, config.storage, config.secret_command, config.trusts_storage, root
        )
    if key is None and storage is None:
        return config
    workspace = config.workspace.with_commit_key(key).with_git_storage(storage)
    return config.model_copy(update={"workspace": workspace})
