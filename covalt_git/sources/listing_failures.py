"""Last failures of listing the tools of sources, in ``data/listings`` of this machine.

They are not in the locks, which are shared: the reason is of this machine.  A server that was started again still says why
it has no tools.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from covalt_git.credentials.leaks import masked
from covalt_git.credentials.values import Mask, SecretsFileError, SecretStore
from covalt_git.errors import CovaltError
from covalt_git.json_values import canonical_json
from covalt_git.manifests.machine_folders import check_no_link
from covalt_git.manifests.toolset_files import MANIFEST
from covalt_git.models.sources.server_definition import grant_facts
from covalt_git.models.toolset_manifest import Source
from covalt_git.models.toolset_state import ProcessGrant, ServerGrant
from covalt_git.system import atomic_write
from covalt_git.system.node_folder import data_of

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.models.toolset_manifest import McpServer
    from covalt_git.models.toolset_state import Grant
    from covalt_git.sources.refresh import ToolSource

_FIELDS = ("message", "hint", "code")


def failure_of(root: Path, source: ToolSource) -> CovaltError | None:
    """Return why the last listing of a source failed; None if it did not, or the source or its grants have changed."""
    try:
        stored = json.loads(_file(root, source).read_bytes())
        # A changed source may list its tools, and so may a server that got another grant since.
        if stored["source"] != _source(source):
            return None
        message, hint, code = (str(stored[name]) for name in _FIELDS)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return CovaltError(message, hint=hint, code=code)


def record(root: Path, source: ToolSource, error: CovaltError | None) -> None:
    """Record the outcome of a listing; a folder that cannot be written loses the reason only."""
    file = _file(root, source)
    with suppress(OSError, CovaltError):
        # A clone may have a link here, which leads outside of the project (tests/security/test_links_of_a_clone.py).
        check_no_link(root, file)
        if error is None:
            file.unlink(missing_ok=True)
            return
        # The end of a program's stderr can have the values that it was started with.
        mask = _mask()
        fields = {name: masked(mask.text(getattr(error, name))) for name in _FIELDS}
        content = json.dumps({"source": _source(source), **fields}, ensure_ascii=False)
        atomic_write.replace(file, content, private=True)


def _mask() -> Mask:
    try:
        return Mask(SecretStore.of_this_machine().known().values())
    except SecretsFileError:  # then no program was started with one of its values
        return Mask(SecretStore(SecretStore.of_this_machine().environment).known().values())


def _file(root: Path, source: ToolSource) -> Path:
    return data_of(root) / "listings" / f"{source.namespace}.json"


def _source(source: ToolSource) -> dict[str, str]:
    """Return what the outcome of a listing depends on; a change of another server of the toolset is not part of it."""
    toolset, declared = source.toolset, source.declared
    own: dict[str, Any]
    if isinstance(declared, Source):
        hashes = {path: text for path, text in toolset.files.hashes.items() if path != MANIFEST}
        own = {"source": declared.model_dump(mode="json"), "files": hashes}
    else:
        own = {"server": grant_facts(declared, toolset.files.hashes)["digest"]}
    grants = [
        grant.model_dump(mode="json")
        for grant in toolset.state.grants.values()
        if _is_for(grant, declared)
    ]
    return {"toolset": toolset.id, "digest": canonical_json.digest(own | {"grants": grants})}


def _is_for(grant: Grant, declared: McpServer | Source) -> bool:
    """Return whether the outcome of a listing depends on a grant: that of the server, or those of the hosts of a document."""
    if isinstance(grant, ProcessGrant | ServerGrant):
        return not isinstance(declared, Source) and grant.server == declared.id
    return isinstance(declared, Source)
