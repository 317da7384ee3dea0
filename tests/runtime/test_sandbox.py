"""Which toolsets may run at the level that this machine offers."""

from __future__ import annotations

from typing import Any

import pytest

from covalt_git.models.calls import SandboxLevel
from covalt_git.models.toolset_state import ToolsetState
from covalt_git.runtime import sandbox_levels

DIGEST = "sha256:" + "0" * 64
GRANT = {"digest": DIGEST, "granted_at": "2026-01-01T00:00:00Z", "granted_by": "ada"}


def test_project_s_own_toolset_may_run_at_every_level() -> None:
    sandbox_levels.check_trust("demo", ToolsetState(), at="process")


@pytest.mark.parametrize("level", ["full", "landlock", "seatbelt"])
def test_imported_toolset_may_run_in_a_sandbox(level: SandboxLevel) -> None:
    sandbox_levels.check_trust("demo", ToolsetState(source_type="zip"), at=level)


@pytest.mark.parametrize("kind", ["zip", "local", "url"])
@pytest.mark.parametrize("enabled", [None, True])
def test_imported_toolset_may_not_run_without_a_sandbox(
    kind: str,
    enabled: bool | None,  # noqa: FBT001 - a column of the table
) -> None:
    state = ToolsetState.model_validate({"source_type": kind, "enabled": enabled})

    with pytest.raises(sandbox_levels.SandboxNeededError) as caught:
        sandbox_levels.check_trust("demo", state, at="process")

    assert caught.value.code == "sandbox_needed"
    assert "covalt-git grant add demo unsandboxed" in caught.value.hint


def test_grant_lets_an_imported_toolset_run_without_a_sandbox() -> None:
    grants = {"unsandboxed": {"kind": "unsandboxed", **GRANT}}
    state = ToolsetState.model_validate({"source_type": "zip", "grants": grants})

    sandbox_levels.check_trust("demo", state, digest=DIGEST, at="process")


@pytest.mark.parametrize(
    ("grant", "digest"),
    [
        ({"kind": "unsandboxed"}, ""),
        ({"kind": "unsandboxed"}, "sha256:" + "1" * 64),
        ({"kind": "network", "hosts": ["example.org"]}, DIGEST),
    ],
)
def test_only_an_unsandboxed_grant_of_the_same_files_holds(
    grant: dict[str, Any], digest: str
) -> None:
    grants = {grant["kind"]: grant | GRANT}
    state = ToolsetState.model_validate({"source_type": "zip", "grants": grants})

    with pytest.raises(sandbox_levels.SandboxNeededError):
        sandbox_levels.check_trust("demo", state, digest=digest, at="process")
