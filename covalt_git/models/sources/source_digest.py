"""Digest of the declaration of a source and of its documents, to which its lock belongs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.json_values import canonical_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from covalt_git.models.toolset_manifest import Source, ToolsetManifest

# Approval and whether the tools are enabled are no part of a definition.
_OTHERS = {"id", "requires_confirmation", "enabled"}


def source_digest(
    source: Source, manifest: ToolsetManifest, namespace: str, documents: Mapping[str, str]
) -> str:
    """Return the digest of what the tools of a source are compiled from; ``documents`` are digests by path."""
    used = source.auth.use if source.auth is not None else None
    logins = [auth for auth in manifest.auth if auth.id == used]
    sign_ins = sorted(auth.id for auth in manifest.auth if auth.is_sign_in and auth.id != used)
    facts = {
        "source": source.model_dump(
            mode="json", by_alias=True, exclude=_OTHERS, exclude_defaults=True
        ),
        "auth": [login.model_dump(mode="json", exclude_defaults=True) for login in logins],
        "namespace": namespace,
        "documents": dict(documents),
    }
    if sign_ins and source.type == "openapi":
        facts["sign_ins"] = (
            sign_ins  # a scheme with an entry is a sign-in, and one without needs a secret
        )
    return canonical_json.digest(facts)
