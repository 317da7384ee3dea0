"""``covalt-git toolset update`` and ``toolset diff``: newer versions and local changes of imported toolsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from covalt_git.cli.bundle_verify import accept_option, signature_option
from covalt_git.cli.context import ask, context, json_option
from covalt_git.cli.terminal import output, result_text
from covalt_git.cli.terminal.problem_text import print_problems
from covalt_git.operations import bundles, toolset_imports

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.errors import Problem

_MARKS = {
    "added": ("+", "green"),
    "updated": ("~", "yellow"),
    "merged": ("~", "yellow"),
    "removed": ("-", "red"),
    "conflict": ("!", "red"),
    "kept": ("=", None),
}
_WORDS = {"merged": "with your changes", "kept": "yours"}


@click.command()
@click.argument("toolset_id", metavar="ID")
@click.option("--from", "source", metavar="FILE|DIR|URL", help="Where the newer version is.")
@signature_option
@accept_option
@click.option(
    "--dry-run", is_flag=True, help="Print what would become of each file; change nothing."
)
@click.option(
    "--force", is_flag=True, help="Take their files; what was changed here is kept as a ZIP."
)
@json_option
def update_command(
    toolset_id: str,
    source: str | None,
    *,
    signature: Path | None,
    accept_signer: bool,
    dry_run: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Merge a newer version of the imported toolset ID with the local changes.

    It comes from where the toolset came from, or from --from.  Files are merged one by one, YAML key by
    key; where both sides changed the same, both are there as Git shows it, and the toolset waits
    until somebody decides.  Switches and local overrides stay, and so do grants of what did not change.
    """
    how = {"dry_run": dry_run, "force": force, "accept_signer": accept_signer}
    if source is None and signature is None:
        done = ask(toolset_imports.update_toolset, toolset_id=toolset_id, **how)
    else:
        place = {"source": source, "signature": signature}
        done = ask(toolset_imports.update_toolset_from, toolset_id=toolset_id, **place, **how)
    if as_json:
        output.as_json(done)
    else:
        print_update(done, context().project.root)
    leave_undecided(done)


@click.command()
@click.argument("toolset_id", metavar="ID")
@click.option(
    "--granted", "grant", metavar="GRANT", help="Against what it was when that was granted to it."
)
@click.option("--stat", "names_only", is_flag=True, help="List the files only.")
@json_option
def diff_command(toolset_id: str, grant: str | None, *, names_only: bool, as_json: bool) -> None:
    """Show the local changes of the imported toolset ID, as a patch for git apply."""
    found = ask(bundles.diff_toolset, toolset_id=toolset_id, grant=grant)
    if as_json:
        output.as_json(found)
        return
    for one in found.files:
        if names_only:
            mark, colour = output.MARKS[one.kind]
            output.say(f"  {mark} {one.path}", fg=colour)
        else:
            result_text.patch(one.patch)
    if not found.files:
        since = "that was granted" if grant else "it was imported"
        output.say(f"nothing of {toolset_id} has changed since {since}", err=True)


def leave_undecided(done: toolset_imports.ToolsetUpdated) -> None:
    """Exit with 1 where a conflict or an error is left."""
    if done.conflicts or _errors(done):
        click.get_current_context().exit(1)


def print_update(done: toolset_imports.ToolsetUpdated, root: Path) -> None:
    """Print what an update did or would do."""
    versions = " -> ".join(dict.fromkeys([done.old_version or "?", done.new_version or "?"]))
    changed = [step for step in done.files if step.kind != "kept"]
    if changed:
        output.say(f"{done.toolset_id} {versions}: {output.plural(len(changed), 'file')}")
        _print_steps(done)
    else:
        output.say(f"{done.toolset_id} {versions} is up to date")
    if not done.conflicts:
        print_problems(_errors(done), root)


def _print_steps(done: toolset_imports.ToolsetUpdated) -> None:
    for title, names in done.newly_wants.items():
        output.say(f"  it newly asks for {title}: {', '.join(names)}", fg="yellow")
    for key, changed in done.ended.items():
        output.say(f"  the grant {key} ends: {'; '.join(changed)}", fg="yellow")
    if not done.base_known:
        output.say(
            "  what was imported is neither in Git nor in data/toolsets: every difference is a conflict",
            fg="yellow",
        )
    for step in done.files:
        mark, colour = _MARKS[step.kind]
        words = step.words or _WORDS.get(step.kind, "")
        output.say(f"  {mark} {step.path}" + (f"  ({words})" if words else ""), fg=colour)
    if done.replaced is not None:
        output.say(f"  the previous files are in {done.replaced}")
    if done.dry_run:
        output.say("nothing has changed")
    elif done.conflicts:
        output.say(f"decide {output.plural(len(done.conflicts), 'conflict')}, then:")
        output.say(f"  covalt-git validate toolsets/{done.toolset_id}")


def _errors(done: toolset_imports.ToolsetUpdated) -> list[Problem]:
    return [one for one in done.problems if one.severity == "error"]
