"""``covalt-git authority``: permissions of toolsets, and how a change affects them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from covalt_git.authority.report import markdown, sarif, summary, text_lines
from covalt_git.cli.context import ask, ask_to_print, context
from covalt_git.cli.groups import Group, wants_json
from covalt_git.cli.terminal import output
from covalt_git.errors import WrongCallError
from covalt_git.operations import authority
from covalt_git.problems.repository import repository_prefix
from covalt_git.text import display

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.authority.overview import ToolsetOverview

FORMATS = ("text", "json", "sarif", "markdown")
GREW = 3
"""Exit code if authority grew."""


class _ShowFirst(Group):
    """A group in which an id, or no argument, means ``show``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert ``show`` if the first argument is not a command."""
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_ShowFirst, subcommand_metavar="[ID] | diff BASE..HEAD")
def command() -> None:
    """Show the permissions of toolsets, and how a change affects them."""


@command.command("show")
@click.argument("toolset_id", metavar="[ID]", required=False)
def show(toolset_id: str | None) -> None:
    """Show the permissions of all toolsets, or of the toolset ID: tools, approvals, hosts, secrets, roles.

    Example: covalt-git authority show data-lab
    """
    result = ask_to_print(authority.get_authority, toolset_id=toolset_id)
    for position, toolset in enumerate(result.toolsets):
        if position:
            output.say()
        _print_toolset(toolset)
    if not result.toolsets:
        output.say("no toolsets")
    if result.not_trusted:
        output.say("\nnot trusted on this machine:", fg="yellow")
        for permission in result.not_trusted:
            output.say(f"  {permission}")
        output.say("  hint: covalt-git trust")


@command.command("diff")
@click.argument("revisions", metavar="BASE..HEAD")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="What to print; markdown is for the summary of a pull request.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["grown", "changed", "never"]),
    default="grown",
    show_default=True,
    help="When to exit with 3: if authority grew, if it changed, or never.",
)
def diff(revisions: str, *, form: str | None, fail_on: str) -> None:
    """Compare the permissions of BASE and HEAD, with the place of each change.

    BASE...HEAD compares HEAD with the merge base, as pull requests do.  BASE alone is compared with the
    current files.  Nothing is checked out, run or written.  A change that cannot be decided counts as wider.

    Example: covalt-git authority diff main...HEAD
    """
    if wants_json() and form not in {None, "json"}:
        raise WrongCallError(f"--json and --format {form} cannot be combined")
    comparison = ask(authority.compare_authority, revisions=revisions)
    _print(comparison, form or ("json" if wants_json() else "text"), context().root)
    changed = any(change.verdict != "neutral" for change in comparison.changes)
    if (comparison.grown and fail_on != "never") or (changed and fail_on == "changed"):
        raise SystemExit(GREW)


def _print(comparison: authority.AuthorityCompared, form: str, root: Path) -> None:
    if form == "json":
        output.as_json(comparison)
    elif form == "sarif":
        click.echo(json.dumps(sarif(comparison.changes, repository_prefix(root)), indent=2))
    elif form == "markdown":
        click.echo(
            display.in_lines(markdown(comparison.changes, list(map(str, comparison.problems))))
        )
    else:
        for line, change in text_lines(comparison.changes):
            colour = None
            if change is not None:
                colour = "red" if change.verdict == "widening" else "green"
            output.say(line, fg=colour)
        for problem in comparison.problems:
            output.say(str(problem), err=True, fg="yellow")
        output.say(summary(comparison.changes), bold=True)


def _print_toolset(toolset: ToolsetOverview) -> None:
    state = "enabled" if toolset.enabled else "disabled"
    origin = "the project's own" if toolset.own else "imported: runs only in a sandbox"
    output.say(f"{toolset.toolset_id}: {state}, {origin}", bold=True)
    if toolset.broken:
        output.say("  has errors, so that none of its tools can be called: covalt-git validate")
    lines = {
        "reaches": list(toolset.hosts),
        "secrets": [_secret(toolset, name) for name in toolset.secrets],
        "starts and connects": list(toolset.processes),
        "packages": list(toolset.packages),
        "sandbox": ["may run without one"] if toolset.unsandboxed else [],
        "ended grants": [
            f"{key}: {'; '.join(changed)}" for key, changed in toolset.grant_changes.items()
        ],
        "more": list(toolset.more),
    }
    for title, texts in lines.items():
        for text in texts:
            output.say(f"  {title}: {text}")
    if not toolset.tools:
        return
    output.table(
        [
            (
                f"  {tool.tool_id}",
                tool.asks,
                "yes" if tool.writes else "no",
                ", ".join(tool.roles) or "none",
                tool.does,
            )
            for tool in toolset.tools
        ],
        titles=("  TOOL", "APPROVAL", "WRITES", "ROLES", "RUNS"),
    )


def _secret(toolset: ToolsetOverview, name: str) -> str:
    if hosts := toolset.secrets[name]:
        return f"{name}, to {', '.join(hosts)}"
    return (
        f"{name}, {'for its Python' if name in toolset.granted_secrets else 'which is not granted'}"
    )
