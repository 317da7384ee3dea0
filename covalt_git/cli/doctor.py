"""``covalt-git doctor``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from covalt_git.cli.context import print_json
from covalt_git.cli.groups import JsonCommand, wants_json
from covalt_git.cli.terminal import output
from covalt_git.credentials.command import SecretCommand
from covalt_git.errors import CovaltError
from covalt_git.manifests.project_config import read_config
from covalt_git.manifests.project_root import find_root
from covalt_git.runtime import machine, probes, sandbox_levels

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from covalt_git.json_values import JsonObject
    from covalt_git.models.calls import SandboxLevel
    from covalt_git.runtime.probes import Finding
    from covalt_git.runtime.sandbox_levels import Available

    Findings = dict[SandboxLevel, list[Finding]]

_HOLDING = ("full", "landlock", "seatbelt")
"""The levels that must block every probe."""


@click.command(cls=JsonCommand)
@click.option("--quick", is_flag=True, help="Do not run the probes.")
@click.option("--verbose", is_flag=True, help="Print a line for every probe of every level.")
def command(*, quick: bool, verbose: bool) -> None:
    """Test the sandbox on this machine, and show what the machine supports.

    At each available sandbox level, probes try actions that a tool must not be able to do.  Exits with 1
    if one of them succeeds.  Most succeed at 'process', which protects against accidents, not against
    attacks; this counts only if the machine has no other level.

    Example: covalt-git doctor
    """
    root = click.get_current_context().find_root().obj["root"]
    facts = (*machine.facts(root), *_secret_command(root))
    if not wants_json():
        output.table(
            [(fact.name, fact.value, fact.note) for fact in facts], titles=("MACHINE", "", "")
        )
        output.say()
    levels = sandbox_levels.levels()
    findings_by_level = {
        available.level: _probe(available) for available in levels if not quick and available.here
    }
    code = exit_code(findings_by_level, effective=sandbox_levels.level())
    print_json(_json(facts, levels, findings_by_level), exit_code=code)
    print_levels(levels, findings_by_level, verbose=verbose)
    raise click.exceptions.Exit(code)


def _secret_command(root: Path) -> list[machine.MachineFact]:
    """Return the secret_command of the project in ``root``, if there is one."""
    try:
        project = find_root(root)
        secret_command = SecretCommand.of(project, read_config(project).secret_command)
        if secret_command is None:
            return []
        note = "allowed" if secret_command.is_allowed else "not allowed; covalt-git secret allow"
    except CovaltError:
        return []  # `validate` reports the errors
    return [machine.MachineFact("secret command", str(secret_command), note)]


def exit_code(findings_by_level: Findings, *, effective: SandboxLevel) -> int:
    """Return 1 if a probe succeeded or failed to run at a level that must block it."""
    # The level `process` blocks few probes, as it says, so it counts only where a machine has no other.
    judged = (
        findings for level, findings in findings_by_level.items() if level in {effective, *_HOLDING}
    )
    return int(any(finding.verdict != "refused" for findings in judged for finding in findings))


def _probe(available: Available) -> list[Finding]:
    if not wants_json():
        output.say(f"probing {available.level!r} ...", err=True, dim=True)
    return probes.run(available.level)


def print_levels(
    levels: Sequence[Available], findings_by_level: Findings, *, verbose: bool
) -> None:
    """Print the levels as a table, and below it the probes that were not blocked."""
    rows = []
    for available in levels:
        mark = (
            "effective"
            if available.level == sandbox_levels.level()
            else "yes"
            if available.here
            else "no"
        )
        rows.append(
            (available.level, mark, _summary(available, findings_by_level), _why(available))
        )
    output.table(rows, titles=("LEVEL", "AVAILABLE", "PROBES", ""))
    for level, findings in findings_by_level.items():
        for finding in findings:
            if verbose or (finding.verdict != "refused" and level in _HOLDING):
                colour = None if finding.verdict == "refused" else "red"
                output.say(
                    f"{level}: {finding.verdict}: a tool {finding.what}: {finding.said}", fg=colour
                )


def _summary(available: Available, findings_by_level: Findings) -> str:
    if available.level not in findings_by_level:
        return "-"
    verdicts = [finding.verdict for finding in findings_by_level[available.level]]
    counts = [f"{verdicts.count(kind)} {kind}" for kind in ("refused", "through", "broken")]
    return ", ".join(count for count in counts if not count.startswith("0 "))


def _why(available: Available) -> str:
    if available.level == "process":
        return "protects against accidents, not attacks: imported toolsets cannot run"
    return f"{available.why}; {available.hint}" if available.hint else available.why


def _json(
    facts: Sequence[machine.MachineFact], levels: Sequence[Available], findings_by_level: Findings
) -> JsonObject:
    return {
        "machine": {fact.name: {"value": fact.value, "note": fact.note} for fact in facts},
        "level": sandbox_levels.level(),
        "levels": [available._asdict() for available in levels],
        "probes": [
            finding._asdict() for findings in findings_by_level.values() for finding in findings
        ],
    }
