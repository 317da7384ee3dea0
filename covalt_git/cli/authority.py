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
    found = ask_to_print(authority.get_authority, toolset_id=toolset_id)
    for position, one in enumerate(found.toolsets):
        if position:
            output.say()
        _print_toolset(one)
    if not found.toolsets:
        output.say("no toolsets")
    if found.not_trusted:
        output.say("\nnot trusted on this machine:", fg="yellow")
        for permission in found.not_trusted:
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
    found = ask(authority.compare_authority, revisions=revisions)
    _print(found, form or ("json" if wants_json() else "text"), context().root)
    changed = any(one.verdict != "neutral" for one in found.changes)
    if (found.grown and fail_on != "never") or (changed and fail_on == "changed"):
        raise SystemExit(GREW)


# Printing


def _print(found: authority.AuthorityCompared, form: str, root: Path) -> None:
    if form == "json":
        output.as_json(found)
    elif form == "sarif":
        click.echo(json.dumps(sarif(found.changes, repository_prefix(root)), indent=2))
    elif form == "markdown":
        click.echo(display.in_lines(markdown(found.changes, list(map(str, found.problems)))))
    else:
        for line, change in text_lines(found.changes):
            colour = None
            if change is not None:
                colour = "red" if change.verdict == "widening" else "green"
            output.say(line, fg=colour)
        for problem in found.problems:
            output.say(str(problem), err=True, fg="yellow")
        output.say(summary(found.changes), bold=True)


def _print_toolset(one: ToolsetOverview) -> None:
    state = "enabled" if one.enabled else "disabled"
    origin = "the project's own" if one.own else "imported: runs only in a sandbox"
    output.say(f"{one.toolset_id}: {state}, {origin}", bold=True)
    if one.broken:
        output.say("  has errors, so that none of its tools can be called: covalt-git validate")
    lines = {
        "reaches": list(one.hosts),
        "secrets": [_secret(one, name) for name in one.secrets],
        "starts and connects": list(one.processes),
        "packages": list(one.packages),
        "sandbox": ["may run without one"] if one.unsandboxed else [],
        "ended grants": [
            f"{key}: {'its entry' if key.startswith('tool-') else 'a file'} has changed"
            for key in one.stale_grants
        ],
        "more": list(one.more),
    }
    for title, texts in lines.items():
        for text in texts:
            output.say(f"  {title}: {text}")
    if not one.tools:
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
            for tool in one.tools
        ],
        titles=("  TOOL", "APPROVAL", "WRITES", "ROLES", "RUNS"),
    )


def _secret(one: ToolsetOverview, name: str) -> str:
    if hosts := one.secrets[name]:
        return f"{name}, to {', '.join(hosts)}"
    return f"{name}, {'for its Python' if name in one.granted_secrets else 'which is not granted'}"
