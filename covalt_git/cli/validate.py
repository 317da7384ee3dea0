"""``covalt-git validate``."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from covalt_git.cli import output
from covalt_git.cli.progress import Bar
from covalt_git.errors import WrongCallError
from covalt_git.problems.baseline import Compared, baseline_text, compare, read_baseline, updated
from covalt_git.problems.github import github_command
from covalt_git.problems.repository import repository_prefix
from covalt_git.system import atomic_write
from covalt_git.toolsets.project_files import CONFIG, ProjectReading, find_root, read_project
from covalt_git.toolsets.toolset import read_toolset

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from covalt_git.errors import Problem
    from covalt_git.grants.status import MissingGrant

FORMATS = ("text", "json", "github", "sarif", "junit")


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="What to print; github annotates pull requests from a workflow.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--strict", is_flag=True, help="Let warnings fail as well.")
@click.option("--fix", is_flag=True, help="Rename misspelt keys in the files.")
@click.option("--diff", is_flag=True, help="Show what --fix would change; change nothing.")
@click.option(
    "--baseline",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Report only what is not in this file.",
)
@click.option(
    "--write-baseline",
    "update",
    is_flag=True,
    help="Write the problems that are found now into the baseline.",
)
def command(
    paths: tuple[Path, ...],
    *,
    form: str | None,
    as_json: bool,
    strict: bool,
    fix: bool,
    diff: bool,
    baseline: Path | None,
    update: bool,
) -> None:
    """Check covalt.yaml, every toolset and the state files; run nothing of them.

    With PATHS, report only what lies in these files or folders; of a toolset's other files what its
    toolset.yaml says of them, too.  Exits with 1 if there are problems, with 2 if it is called wrongly.
    """
    form = form or ("json" if as_json else "text")
    _refuse_contradictions(form, as_json=as_json, fix=fix, diff=diff)
    if update and baseline is None:
        raise WrongCallError("--write-baseline needs --baseline FILE")
    start: Path = click.get_current_context().find_root().obj["root"]
    root = find_root(_start(paths, start))
    wanted = _wanted(paths, root)
    reading = _read(root)
    if fix or diff:
        from covalt_git.cli.validate_fix import fix_files  # noqa: PLC0415 - only where it is wanted

        mended = fix_files(root, _within(reading, wanted), write=not diff)
        if diff:
            raise SystemExit(1 if mended or _failing(_within(reading, wanted), strict) else 0)
        if mended:
            reading = _read(root)
    found = _within(reading, wanted)
    if update and baseline is not None:
        _update(baseline, found, wanted)
        return
    compared = _compared(found, baseline, wanted)
    _print(form, reading, compared, wanted, strict=strict)
    _tell_stale(compared, baseline)
    if _failing(compared.new, strict):
        raise SystemExit(1)


def _refuse_contradictions(form: str, *, as_json: bool, fix: bool, diff: bool) -> None:
    if as_json and form != "json":
        raise WrongCallError(f"--json and --format {form} contradict each other")
    if fix and diff:
        raise WrongCallError("--fix changes the files and --diff does not: give one of them")
    if diff and form != "text":
        raise WrongCallError("--diff prints a difference, and no other format")


def _read(root: Path) -> ProjectReading:
    told = Bar("toolsets")
    try:
        return read_project(root, told)
    finally:
        told.clear()


# Which problems are reported


def _start(paths: tuple[Path, ...], start: Path) -> Path:
    """Return where to look for the project: at the first path, unless the caller has said."""
    if not paths or not paths[0].exists() or start != Path():
        return start
    return paths[0] if paths[0].is_dir() else paths[0].parent


def _wanted(paths: tuple[Path, ...], root: Path) -> Callable[[str], bool]:
    """Return what tells of a file's path in the project whether it is reported on."""
    if not paths:
        return lambda _path: True
    within = []
    for path in paths:
        if not path.exists():
            raise WrongCallError(f"there is no file or folder {str(path)!r}")
        if not path.resolve().is_relative_to(root.resolve()):
            raise WrongCallError(f"{str(path)!r} is not part of the project in {str(root)!r}")
        parts = path.resolve().relative_to(root.resolve()).parts
        within.append("/".join(parts))
        if parts[:1] == ("toolsets",) and len(parts) > 2:  # noqa: PLR2004 - toolsets, its id, a file
            within.append(f"toolsets/{parts[1]}/toolset.yaml")
    return lambda path: any(not one or path == one or path.startswith(f"{one}/") for one in within)


def _within(reading: ProjectReading, wanted: Callable[[str], bool]) -> list[Problem]:
    return [problem for problem in reading.problems if wanted(problem.path)]


def _failing(found: Sequence[Problem], strict: bool) -> bool:  # noqa: FBT001 - an option's value
    return any(strict or one.severity == "error" for one in found)


# Baselines


def _compared(
    found: list[Problem], baseline: Path | None, wanted: Callable[[str], bool]
) -> Compared:
    if baseline is None:
        return Compared(found, 0, [])
    entries = read_baseline(baseline)
    looked_at = Counter({entry: entries[entry] for entry in entries if wanted(entry.path)})
    return compare(found, looked_at)


def _update(baseline: Path, found: list[Problem], wanted: Callable[[str], bool]) -> None:
    before = read_baseline(baseline) if baseline.exists() else Counter()
    entries = updated(found, before, wanted)
    atomic_write.replace(baseline, baseline_text(entries))
    output.say(f"{output.plural(entries.total(), 'problem')} written to {baseline}")


def _tell_stale(compared: Compared, baseline: Path | None) -> None:
    if not compared.stale:
        return
    for entry in compared.stale:
        output.say(f"{baseline}: {entry.path}: {entry.code} {entry.message}", err=True)
    count = output.plural(len(compared.stale), "line")
    output.say(f"{count} of the baseline without a problem any more", err=True, fg="yellow")
    hint = f"covalt-git validate --baseline {baseline} --write-baseline"
    output.say(f"  hint: {hint}", err=True)


# Printing


def _print(
    form: str,
    reading: ProjectReading,
    compared: Compared,
    wanted: Callable[[str], bool],
    *,
    strict: bool,
) -> None:
    if form == "json":
        output.as_json(_json(reading, compared))
    elif form == "sarif":
        from covalt_git.problems.sarif import sarif_log  # noqa: PLC0415 - only where it is wanted

        click.echo(json.dumps(sarif_log(compared.new, repository_prefix(reading.root)), indent=2))
    elif form == "junit":
        from covalt_git.problems.junit import junit_report  # noqa: PLC0415 - only where it is wanted

        failing = {"error", "warning"} if strict else {"error"}
        sound = {path for path in _manifests(reading) if wanted(path)}
        sound -= {problem.path for problem in compared.new}
        click.echo(junit_report(compared.new, sound, failing))
    elif form == "github":
        for problem in compared.new:
            click.echo(github_command(problem, repository_prefix(reading.root)))
        output.say(_summary(reading, compared))
    else:
        if compared.new:
            from covalt_git.cli.problem_text import print_problems  # noqa: PLC0415 - only for some

            print_problems(compared.new, reading.root)
        colour = "red" if _failing(compared.new, strict) else "green"
        output.say(_summary(reading, compared), fg=colour)
        for one in _lacking(reading):
            output.say(f"not granted: {one.why}", err=True)
            output.say(f"  hint: {one.command}", err=True)
        count = _mendable(reading, compared)
        if count:
            output.say(f"{count} of them can be mended: covalt-git validate --fix", err=True)


def _manifests(reading: ProjectReading) -> list[str]:
    return [CONFIG, *(f"toolsets/{toolset.id}/toolset.yaml" for toolset in reading.toolsets)]


def _json(reading: ProjectReading, compared: Compared) -> dict[str, object]:
    return {
        "problems": [one.as_json() | {"item": one.item} for one in compared.new],
        "toolsets": len(reading.toolsets),
        "tools": _tools(reading),
        "lacking": [one._asdict() for one in _lacking(reading)],
        "in_baseline": compared.hidden,
        "stale": [entry._asdict() for entry in compared.stale],
    }


def _lacking(reading: ProjectReading) -> list[MissingGrant]:
    """Return the MCP servers that nobody granted, of the toolsets that are on: no mistake of a file."""
    used = [one for one in reading.toolsets if one.sound and one.enabled and one.has_servers]
    if not used:
        return []
    from covalt_git.grants.status import lacking  # noqa: PLC0415 - only where it is wanted

    found = [lacking(read_toolset(reading.root, one.id)) for one in used]
    return [one for of_toolset in found for one in of_toolset]


def _mendable(reading: ProjectReading, compared: Compared) -> int:
    if not compared.new:
        return 0
    from covalt_git.cli.validate_fix import fixable  # noqa: PLC0415 - only where it is wanted

    return fixable(reading.root, compared.new)


def _tools(reading: ProjectReading) -> int:
    return sum(toolset.tool_count for toolset in reading.toolsets)


def _summary(reading: ProjectReading, compared: Compared) -> str:
    toolsets = output.plural(len(reading.toolsets), "toolset")
    tools = output.plural(_tools(reading), "tool")
    files = output.plural(len({one.path for one in compared.new}), "file")
    found = compared.new
    result = f"{output.plural(len(found), 'problem')} in {files}" if found else "no problems"
    hidden = f", {compared.hidden} more in the baseline" if compared.hidden else ""
    return f"{toolsets}, {tools}: {result}{hidden}"
