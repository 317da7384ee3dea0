"""``covalt-git toolset update`` and ``toolset diff``: newer versions and local changes of imported toolsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from covalt_git.cli.bundle_verify import accept_option, signature_option
from covalt_git.cli.call import reason_option
from covalt_git.cli.context import ask, ask_to_print, context, print_json
from covalt_git.cli.groups import JsonCommand
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
_WORDS = {"merged": "with local changes", "kept": "local change"}


@click.command(cls=JsonCommand)
@click.argument("toolset_id", metavar="ID")
@click.option("--from", "source", metavar="FILE|DIR|URL", help="The source of the newer version.")
@signature_option
@accept_option
@click.option("--dry-run", is_flag=True, help="Print the result for each file; change nothing.")
@click.option("--force", is_flag=True, help="Use the new files; local changes are stored as a ZIP.")
@reason_option
def update_command(source: str | None, *, signature: Path | None, **fields: Any) -> None:
    """Merge a newer version of the imported toolset ID with the local changes.

    The source is that of the import, or --from.  Text files are merged by lines, YAML files by keys.  If
    both sides changed the same, the file has both versions with conflict markers, and the tools cannot be
    called until you resolve them.  The toolset stays enabled or disabled.  Local overrides are kept, and
    so are grants whose files did not change.  Without a terminal, --accept-signer needs --no-terminal and a
    reason.

    Example: covalt-git toolset update weather
    """
    if source is None and signature is None:
        update = ask(toolset_imports.update_toolset, **fields)
    else:
        fields |= {"source": source, "signature": signature}
        update = ask(toolset_imports.update_toolset_from, **fields)
    print_json(update, exit_code=int(is_unresolved(update)))
    print_update(update, context().project.root)
    if is_unresolved(update):
        raise click.exceptions.Exit(1)


@click.command(cls=JsonCommand)
@click.argument("toolset_id", metavar="ID")
@click.option("--granted", "grant", metavar="GRANT", help="Compare with the version at this grant.")
@click.option("--stat", "names_only", is_flag=True, help="List the files only.")
def diff_command(toolset_id: str, grant: str | None, *, names_only: bool) -> None:
    """Show the local changes of the imported toolset ID, as a patch for git apply.

    Example: covalt-git toolset diff weather
    """
    difference = ask_to_print(bundles.diff_toolset, toolset_id=toolset_id, grant=grant)
    for file in difference.files:
        if names_only:
            mark, colour = output.MARKS[file.kind]
            output.say(f"  {mark} {file.path}", fg=colour)
        else:
            result_text.patch(file.patch)
    if not difference.files:
        since = "the grant" if grant else "the import"
        output.say(f"{toolset_id} has not changed since {since}", err=True)


def is_unresolved(update: toolset_imports.ToolsetUpdated) -> bool:
    """Return whether an update left conflicts or errors."""
    return bool(update.conflicts or _errors(update))


def print_update(update: toolset_imports.ToolsetUpdated, root: Path) -> None:
    """Print the result of an update or of its dry run."""
    versions = " -> ".join(dict.fromkeys([update.old_version or "?", update.new_version or "?"]))
    changed = [step for step in update.files if step.kind != "kept"]
    if changed:
        output.say(f"{update.toolset_id} {versions}: {output.plural(len(changed), 'file')}")
        _print_steps(update)
    else:
        output.say(f"{update.toolset_id} {versions} is up to date")
    # A file with conflict markers cannot be read, so its problems would only repeat the conflicts.
    if not update.conflicts:
        print_problems(_errors(update), root)


def _print_steps(update: toolset_imports.ToolsetUpdated) -> None:
    # First: the user has to decide about these, and the list of files may be long.
    for title, names in update.newly_wants.items():
        output.say(f"  newly requests {title}: {', '.join(names)}", fg="yellow")
    for key, changed in update.ended.items():
        output.say(f"  the grant {key} ends: {'; '.join(changed)}", fg="yellow")
    if not update.base_known:
        output.say(
            "  the imported version is neither in Git nor in data/toolsets: every difference is a conflict",
            fg="yellow",
        )
    for step in update.files:
        mark, colour = _MARKS[step.kind]
        words = step.words or _WORDS.get(step.kind, "")
        output.say(f"  {mark} {step.path}" + (f"  ({words})" if words else ""), fg=colour)
    if update.replaced is not None:
        output.say(f"  the previous files are in {update.replaced}")
    if update.dry_run:
        output.say("nothing has changed")
    elif update.conflicts:
        output.say(f"resolve {output.plural(len(update.conflicts), 'conflict')}, then:")
        output.say(f"  covalt-git validate toolsets/{update.toolset_id}")


def _errors(update: toolset_imports.ToolsetUpdated) -> list[Problem]:
    return [problem for problem in update.problems if problem.severity == "error"]
