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
@click.option("--fix", is_flag=True, help="Rename misspelt keys, and write approvals as rules.")
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
        result = ask(validation.write_baseline, paths=paths, baseline=baseline)
        output.say(f"{output.plural(result.problems, 'problem')} written to {baseline}")
        return
    report = ask(validation.validate, paths=paths, baseline=baseline, staged=staged)
    _print(form, report, strict=strict, staged=staged)
    _print_stale(report, baseline)
    if _failing(report.problems, strict):
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
    # A hook runs in the root of a repository, and the project may be below it
    # (test_the_hooks_run_for_the_files_of_a_project).
    given = click.get_current_context().find_root().obj
    if paths and paths[0].exists() and given["root"] == Path():
        given["root"] = paths[0] if paths[0].is_dir() else paths[0].parent


def _show_diff(paths: tuple[Path, ...], *, strict: bool) -> int:
    """Print what ``--fix`` would change; return the exit status."""
    result = ask(validation.fix_files, paths=paths, write=False)
    output.say(result.diff, nl=False)
    if result.fixed:
        output.say(f"{output.plural(len(result.fixed), 'problem')} would be fixed", err=True)
        return 1
    report = ask(validation.validate, paths=paths)
    if report.problems:
        print_problems(report.problems, context().root)
        output.say(
            "--fix changes nothing: it only renames misspelt keys, and writes approvals as rules",
            err=True,
        )
    else:
        output.say("--fix changes nothing: there are no problems", err=True)
    return int(_failing(report.problems, strict))


def _fix(paths: tuple[Path, ...]) -> None:
    """Fix files, and report this on stderr, because stdout has the output format."""
    root = context().root
    for problem in ask(validation.fix_files, paths=paths).fixed:
        here = os.path.relpath(root / problem.path)
        place = f"fixed {here}:{problem.line}:{problem.col}"
        output.say(f"{place}: {problem.code} {problem.message}", err=True, fg="green")


def _failing(problems: Sequence[Problem], strict: bool) -> bool:  # noqa: FBT001 - an option's value
    return any(strict or problem.severity == "error" for problem in problems)


def _print_stale(report: Validation, baseline: Path | None) -> None:
    if not report.stale:
        return
    for entry in report.stale:
        output.say(f"{baseline}: {entry.path}: {entry.code} {entry.message}", err=True)
    count = output.plural(len(report.stale), "line")
    output.say(f"{count} of the baseline without a problem", err=True, fg="yellow")
    hint = f"covalt-git validate --baseline {baseline} --write-baseline"
    output.say(f"  hint: {hint}", err=True)


def _print(form: str, report: Validation, *, strict: bool, staged: bool) -> None:
    root = context().root
    if form == "json":
        output.as_json(report)
    elif form == "sarif":
        from covalt_git.problems.sarif import sarif_log  # noqa: PLC0415 - only where it is wanted

        click.echo(json.dumps(sarif_log(report.problems, repository_prefix(root)), indent=2))
    elif form == "junit":
        from covalt_git.problems.junit import junit_report  # noqa: PLC0415 - only where it is wanted

        failing = {"error", "warning"} if strict else {"error"}
        click.echo(junit_report(report.problems, report.without_problems, failing))
    elif form == "github":
        for problem in report.problems:
            click.echo(github_command(problem, repository_prefix(root)))
        output.say(_summary(report))
    else:
        if report.problems:
            # The file in the folder may differ from the staged one, so its lines would be wrong excerpts.
            print_problems(report.problems, root, excerpts=not staged)
        output.say(_summary(report), fg="red" if _failing(report.problems, strict) else "green")
        if report.unchecked:
            files = ", ".join(os.path.relpath(root / path) for path in report.unchecked)
            output.say(f"some checks did not run: fix {files}, then validate again", err=True)
        for grant in report.lacking:
            output.say(f"not granted: {grant.why}", err=True)
            output.say(f"  hint: {grant.command}", err=True)
        # The staged files can differ from those that act here, and a hook runs while git holds its lock.
        if report.not_trusted and not staged:
            count = output.plural(len(report.not_trusted), "permission")
            output.say(f"not trusted on this machine: {count}", err=True)
            output.say("  hint: covalt-git trust", err=True)
        if report.fixable:
            output.say(
                f"{report.fixable} of them can be fixed: covalt-git validate --fix", err=True
            )
        if staged and _failing(report.problems, strict):
            output.say(f"stage what you fix: {_git_add(report.problems, root)}", err=True)


def _git_add(problems: Sequence[Problem], root: Path) -> str:
    """Return the command that stages the files of problems, as typed in the current folder."""
    files = sorted({os.path.relpath(root / problem.path) for problem in problems})
    return shlex.join(["git", "add", *files])


def _summary(report: Validation) -> str:
    toolsets = output.plural(report.toolsets, "toolset")
    tools = output.plural(report.tools, "tool")
    files = output.plural(len({problem.path for problem in report.problems}), "file")
    count = output.plural(len(report.problems), "problem")
    result = f"{count} in {files}" if report.problems else "no problems"
    hidden = f", {report.in_baseline} more in the baseline" if report.in_baseline else ""
    return f"{toolsets}, {tools}: {result}{hidden}"
