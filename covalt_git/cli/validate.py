"""``covalt-git validate``."""

from __future__ import annotations

from pathlib import Path

import click

from covalt_git.cli import output
from covalt_git.cli.session import wrong_call
from covalt_git.errors import CovaltError, Problem
from covalt_git.files.project_files import find_root, read_project


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option("--strict", is_flag=True, help="Let warnings fail as well.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(paths: tuple[Path, ...], *, strict: bool, as_json: bool) -> None:
    """Check covalt.yaml, every toolset and the state files; run nothing of them.

    With PATHS, report only what lies in these files or folders.  Exits with 1 if there are problems.
    """
    start = click.get_current_context().find_root().obj["root"]
    root = find_root(paths[0].parent if paths and paths[0].exists() and start == Path() else start)
    reading = read_project(root)
    found = _within(reading.problems, paths, root)
    failing = [one for one in found if strict or one.severity == "error"]
    tools = sum(len(toolset.tools) for toolset in reading.toolsets)
    if as_json:
        output.as_json(
            {
                "problems": [problem.as_json() for problem in found],
                "toolsets": len(reading.toolsets),
                "tools": tools,
            }
        )
    else:
        output.problems(found, root)
        checked = (
            f"{output.plural(len(reading.toolsets), 'toolset')}, {output.plural(tools, 'tool')}"
        )
        files = output.plural(len({one.path for one in found}), "file")
        result = f"{output.plural(len(found), 'problem')} in {files}" if found else "no problems"
        output.say(f"{checked}: {result}", fg="red" if failing else "green")
    if failing:
        raise SystemExit(1)


def _within(found: tuple[Problem, ...], paths: tuple[Path, ...], root: Path) -> list[Problem]:
    if not paths:
        return list(found)
    wanted = []
    for path in paths:
        if not path.exists():
            raise wrong_call(f"there is no file or folder {str(path)!r}")
        wanted.append(path.resolve())
        if not path.resolve().is_relative_to(root.resolve()):
            raise CovaltError(f"{str(path)!r} is not part of the project in {str(root)!r}")
    return [
        problem
        for problem in found
        if any((root / problem.path).resolve().is_relative_to(path) for path in wanted)
    ]
