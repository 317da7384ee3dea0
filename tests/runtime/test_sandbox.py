"""Which toolsets may run at the level that this machine offers."""

from __future__ import annotations

import pytest

from covalt_git.models.toolset_state import ToolsetState
from covalt_git.runtime import sandbox


def test_project_s_own_toolset_may_run() -> None:
    sandbox.check_trust("demo", ToolsetState())


@pytest.mark.parametrize("kind", ["zip", "local", "url"])
@pytest.mark.parametrize("enabled", [None, True])
def test_imported_toolset_may_not_run_without_a_sandbox(
    kind: str,
    enabled: bool | None,  # noqa: FBT001 - a column of the table
) -> None:
    state = ToolsetState.model_validate({"source_type": kind, "enabled": enabled})

    with pytest.raises(sandbox.SandboxNeededError) as caught:
        sandbox.check_trust("demo", state)

    assert caught.value.as_json() == {
        "error": "sandbox_needed",
        "error_description": "the toolset 'demo' was imported, "
        "and only the sandbox level 'process' is here",
        "hint": "read its code; once you trust it, make it the project's own: "
        "git rm toolsets/state/demo.yaml",
        "problems": [],
    }


def test_level_in_force_is_shown_by_its_name() -> None:
    assert sandbox.level() == "process"
