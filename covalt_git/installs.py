"""What is decided about toolsets: the state file first, then whoever reads it sees the change."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.files.state_files import write_state
from covalt_git.files.toolsets import STATE_FOLDER, Toolset, read_toolset, toolset_ids
from covalt_git.hosts import HostRule
from covalt_git.models.toolset_state import NetworkGrant, SecretGrant

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from covalt_git.models.toolset_state import Grant


def find_toolset(root: Path, toolset_id: str) -> Toolset:
    """Return a toolset of the project.

    Raises:
        UnknownNameError: naming the nearest one.
    """
    known = toolset_ids(root / "toolsets")
    if toolset_id not in known:
        raise UnknownNameError("toolset", toolset_id, known, list_with="covalt-git toolset list")
    return read_toolset(root, toolset_id)


def set_enabled(root: Path, toolset_id: str, *, enabled: bool) -> bool:
    """Switch a toolset on or off; return whether that changed anything.

    Only ``toolsets/state/<id>.yaml`` is written.

    Raises:
        CovaltError: when the state file cannot be read; it is left as it is.
    """
    toolset = find_toolset(root, toolset_id)
    if toolset.enabled == enabled:
        return False
    file = root / "toolsets" / STATE_FOLDER / f"{toolset_id}.yaml"
    broken = [one for one in toolset.problems if one.path == file.relative_to(root).as_posix()]
    if any(one.severity == "error" for one in broken):
        raise CovaltError("the state file has errors", hint="mend it first", problems=broken)
    # A toolset of our own is on without a word, so that switching it on again leaves no file.
    said = None if enabled and not toolset.state.imported else enabled
    write_state(file, toolset.state.model_copy(update={"enabled": said}))
    return True


def grant_network(root: Path, toolset_id: str, hosts: Sequence[str], *, by: str) -> NetworkGrant:
    """Let a toolset, as its files are now, reach these hosts as well; return all that it may reach.

    Only ``toolsets/state/<id>.yaml`` is written.

    Raises:
        BadHostError: when one of them is no host.
        CovaltError: when the toolset or its state has errors: what is granted has to be known.
    """
    toolset = _grantable(root, toolset_id)
    old = toolset.state.grants.get("network")
    kept = old.hosts if isinstance(old, NetworkGrant) and old.digest == toolset.digest else ()
    grant = NetworkGrant(
        kind="network",
        hosts=_with(kept, hosts),
        digest=toolset.digest,
        granted_at=_now(),
        granted_by=by,
    )
    _put_grant(root, toolset, "network", grant)
    return grant


def grant_secret(
    root: Path, toolset_id: str, name: str, hosts: Sequence[str], *, by: str
) -> SecretGrant:
    """Let a toolset, as its files are now, send a secret to these hosts; return where it may go.

    Raises:
        UnknownNameError: when the toolset does not ask for that secret; and as :func:`grant_network`.
    """
    toolset = _grantable(root, toolset_id)
    asked = toolset.manifest.secrets if toolset.manifest else ()
    if name not in asked:
        list_with = f"covalt-git toolset show {toolset_id}"
        raise UnknownNameError("secret", name, asked, list_with=list_with)
    key = f"secret-{name}"
    old = toolset.state.grants.get(key)
    kept = old.hosts if isinstance(old, SecretGrant) and old.digest == toolset.digest else ()
    grant = SecretGrant(
        kind="secret",
        name=name,
        hosts=_with(kept, hosts),
        digest=toolset.digest,
        granted_at=_now(),
        granted_by=by,
    )
    _put_grant(root, toolset, key, grant)
    return grant


def _grantable(root: Path, toolset_id: str) -> Toolset:
    toolset = find_toolset(root, toolset_id)
    if not toolset.sound:
        broken = [one for one in toolset.problems if one.severity == "error"]
        raise CovaltError(
            f"the toolset {toolset_id!r} has errors", hint="covalt-git validate", problems=broken
        )
    return toolset


def _with(kept: tuple[str, ...], hosts: Sequence[str]) -> tuple[str, ...]:
    for host in hosts:
        HostRule.parse(host)
    return tuple(sorted({*kept, *hosts}))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _put_grant(root: Path, toolset: Toolset, key: str, grant: Grant) -> None:
    grants = toolset.state.grants | {key: grant}
    file = root / "toolsets" / STATE_FOLDER / f"{toolset.id}.yaml"
    write_state(file, toolset.state.model_copy(update={"grants": grants}))
