"""``covalt-git validate``."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from covalt_git.cli.context import ask, context
from covalt_git.cli.groups import JsonCommand, wants_json
from covalt_git.cli.terminal import output
from covalt_git.cli.terminal.problem_text import print_problems
from covalt_git.errors import WrongCallError
from covalt_git.operations import validation
from covalt_git.problems.github import github_command
from covalt_git.problems.repository import repository_prefix

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.errors import Problem
    from covalt_git.operations.validation import Validation

FORMATS = ("text", "json", "github", "sarif", "junit")


@click.command(cls=JsonCommand)
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="Output format; github annotates pull requests in a workflow.",
)
@click.option("--strict", is_flag=True, help="Fail on warnings too.")
@click.option("--staged", is_flag=True, help="Check the files in git's index, for a hook.")
@click.option("--fix", is_flag=True, help="Rename misspelt keys in the files.")
@click.option(
    "--diff", is_flag=True, help="Show what --fix would change; change nothing, also with --fix."
)
@click.option(
    "--baseline",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Do not report the problems in this file.",
)
@click.option(
    "--write-baseline",
    "update",
    is_flag=True,
    help="Write the current problems to the baseline.",
)
def command(
    paths: tuple[Path, ...],
    *,
    form: str | None,
    strict: bool,
    staged: bool,
    fix: bool,
    diff: bool,
    baseline: Path | None,
    update: bool,
) -> None:
    """Check covalt.yaml, all toolsets and the state files, without running their code.

    With PATHS, report only the problems in these files or folders.  For a file of a toolset, the problems
    in the toolset's toolset.yaml are reported too.  Exits with 1 if there are problems, with 2 for wrong arguments.

    Example: covalt-git validate
    """
    form = form or ("json" if wants_json() else "text")
    _refuse_contradictions(form, diff=diff)
    if staged and (fix or diff or update):
        raise WrongCallError("--staged only checks: leave out --fix, --diff and --write-baseline")
    if update and baseline is None:
        raise WrongCallError("--write-baseline needs --baseline FILE")
    paths = _located(paths)
    _start_at(paths)
    if diff:
        raise SystemExit(_show_diff(paths, strict=strict))
    if fix:
        _fix(paths)
    if update:
        done = ask(validation.write_baseline, paths=paths, baseline=baseline)
        output.say(f"{output.plural(done.problems, 'problem')} written to {baseline}")
        return
    found = ask(validation.validate, paths=paths, baseline=baseline, staged=staged)
    _print(form, found, strict=strict, staged=staged)
    _print_stale(found, baseline)
    if _failing(found.problems, strict):
        raise SystemExit(1)


def _refuse_contradictions(form: str, *, diff: bool) -> None:
    if wants_json() and form != "json":
        raise WrongCallError(f"--json and --format {form} cannot be combined")
    if diff and form != "text":
        raise WrongCallError("--diff cannot be combined with --format")


def _located(paths: tuple[Path, ...]) -> tuple[Path, ...]:
    """Return paths as the caller means them: relative to the current folder, or to the folder of ``-C``."""
    folder = click.get_current_context().find_root().obj["root"]
    return tuple(
        path if path.exists() or not (folder / path).exists() else folder / path for path in paths
    )


def _start_at(paths: tuple[Path, ...]) -> None:
    """Find the project of the first path, unless the command line has ``--root``."""
    given = click.get_current_context().find_root().obj
    if paths and paths[0].exists() and given["root"] == Path():
        given["root"] = paths[0] if paths[0].is_dir() else paths[0].parent


def _show_diff(paths: tuple[Path, ...], *, strict: bool) -> int:
    """Print what ``--fix`` would change; return the exit status."""
    done = ask(validation.fix_files, paths=paths, write=False)
    output.say(done.diff, nl=False)
    if done.fixed:
        output.say(f"{output.plural(len(done.fixed), 'problem')} would be fixed", err=True)
        return 1
    found = ask(validation.validate, paths=paths)
    if found.problems:
        print_problems(found.problems, context().root)
        output.say("--fix changes nothing: it only renames misspelt keys", err=True)
    else:
        output.say("--fix changes nothing: there are no problems", err=True)
    return int(_failing(found.problems, strict))


def _fix(paths: tuple[Path, ...]) -> None:
    """Fix files, and report this on stderr, because stdout has the output format."""
    root = context().root
    for one in ask(validation.fix_files, paths=paths).fixed:
        here = os.path.relpath(root / one.path)
        place = f"fixed {here}:{one.line}:{one.col}"
        output.say(f"{place}: {one.code} {one.message}", err=True, fg="green")


def _failing(found: Sequence[Problem], strict: bool) -> bool:  # noqa: FBT001 - an option's value
    return any(strict or one.severity == "error" for one in found)


def _print_stale(found: Validation, baseline: Path | None) -> None:
    if not found.stale:
        return
    for entry in found.stale:
        output.say(f"{baseline}: {entry.path}: {entry.code} {entry.message}", err=True)
    count = output.plural(len(found.stale), "line")
    output.say(f"{count} of the baseline without a problem", err=True, fg="yellow")
    hint = f"covalt-git validate --baseline {baseline} --write-baseline"
    output.say(f"  hint: {hint}", err=True)


def _print(form: str, found: Validation, *, strict: bool, staged: bool) -> None:
    root = context().root
    if form == "json":
        output.as_json(found)
    elif form == "sarif":
        from covalt_git.problems.sarif import sarif_log  # noqa: PLC0415 - only where it is wanted

        click.echo(json.dumps(sarif_log(found.problems, repository_prefix(root)), indent=2))
    elif form == "junit":
        from covalt_git.problems.junit import junit_report  # noqa: PLC0415 - only where it is wanted

        failing = {"error", "warning"} if strict else {"error"}
        click.echo(junit_report(found.problems, found.without_problems, failing))
    elif form == "github":
        for problem in found.problems:
            click.echo(github_command(problem, repository_prefix(root)))
        output.say(_summary(found))
    else:
        if found.problems:
            print_problems(found.problems, root, excerpts=not staged)
        output.say(_summary(found), fg="red" if _failing(found.problems, strict) else "green")
        if found.unchecked:
            files = ", ".join(os.path.relpath(root / one) for one in found.unchecked)
            output.say(f"some checks did not run: fix {files}, then validate again", err=True)
        for one in found.lacking:
            output.say(f"not granted: {one.why}", err=True)
            output.say(f"  hint: {one.command}", err=True)
        if found.not_trusted:
            count = output.plural(len(found.not_trusted), "permission")
            output.say(f"not trusted on this machine: {count}", err=True)
            output.say("  hint: covalt-git trust", err=True)
        if found.fixable:
            output.say(f"{found.fixable} of them can be fixed: covalt-git validate --fix", err=True)
        if staged and _failing(found.problems, strict):
            output.say(f"stage what you fix: {_git_add(found.problems, root)}", err=True)


def _git_add(found: Sequence[Problem], root: Path) -> str:
    """Return the command that stages the files of problems, as typed in the current folder."""
    files = sorted({os.path.relpath(root / one.path) for one in found})
    return shlex.join(["git", "add", *files])


def _summary(found: Validation) -> str:
    toolsets = output.plural(found.toolsets, "toolset")
    tools = output.plural(found.tools, "tool")
    files = output.plural(len({one.path for one in found.problems}), "file")
    count = output.plural(len(found.problems), "problem")
    result = f"{count} in {files}" if found.problems else "no problems"
    hidden = f", {found.in_baseline} more in the baseline" if found.in_baseline else ""
    return f"{toolsets}, {tools}: {result}{hidden}"
