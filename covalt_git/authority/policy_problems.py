"""Problems of the policy of a project: its rules, and the cases of ``policy_tests.yaml``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.authority.policy_cases import run_cases
from covalt_git.authority.project_tools import ProjectTools
from covalt_git.authority.rule_proofs import rule_problems
from covalt_git.manifests.project_config import config_reading

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from covalt_git.errors import Problem


def policy_problems(root: Path) -> Iterator[Problem]:
    """Yield the problems of the policy in ``root``; none if ``covalt.yaml`` has errors."""
    config = config_reading(root)
    if config.value is None:
        return
    tools = ProjectTools(root)
    yield from rule_problems(config, tools)
    yield from run_cases(root, config, tools).problems
