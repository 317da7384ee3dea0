"""Which toolsets may run at the level that this machine offers."""

from typing import Any

import pytest

from covalt_git.models.calls import SandboxLevel
from covalt_git.models.toolset_state import ToolsetState
from covalt_git.runtime import sandbox_levels

DIGEST, OTHER = "sha256:" + "0" * 64, "sha256:" + "1" * 64
GRANT = {"digest": DIGEST, "granted_at": "2026-01-01T00:00:00Z", "granted_by": "ada"}


def imported(grant: dict[str, Any] | None = None, **fields: Any) -> ToolsetState:
    """Return the state of an imported toolset, with a grant for the files of ``DIGEST``."""
    grants = {} if grant is None else {grant["kind"]: grant | GRANT}
    return ToolsetState.model_validate({"source_type": "zip", "grants": grants, **fields})


@pytest.mark.parametrize(
    ("state", "digest", "level"),
    [
        (ToolsetState(), "", "process"),
        (imported(), "", "full"),
        (imported(), "", "landlock"),
        (imported(), "", "seatbelt"),
        (imported({"kind": "unsandboxed"}), DIGEST, "process"),
    ],
)
def test_toolset_may_run(state: ToolsetState, digest: str, level: SandboxLevel) -> None:
    sandbox_levels.check_trust("demo", state, digest=digest, at=level)


@pytest.mark.parametrize(
    ("state", "digest"),
    [
        (imported(), DIGEST),
        (imported(source_type="local", enabled=True), DIGEST),
        (imported(source_type="url"), DIGEST),
        (imported({"kind": "unsandboxed"}), ""),
        (imported({"kind": "unsandboxed"}), OTHER),
        (imported({"kind": "network", "hosts": ["example.org"]}), DIGEST),
    ],
)
def test_imported_toolset_may_not_run_without_a_sandbox_or_a_grant_of_its_files(
    state: ToolsetState, digest: str
) -> None:
    with pytest.raises(sandbox_levels.SandboxNeededError) as caught:
        sandbox_levels.check_trust("demo", state, digest=digest, at="process")

    assert "covalt-git grant add demo unsandboxed" in caught.value.hint
