"""``covalt-git convert``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from covalt_git.cli.context import can_ask, print_json, project
from covalt_git.cli.groups import JsonCommand, wants_json
from covalt_git.cli.terminal import output
from covalt_git.errors import WrongCallError
from covalt_git.formats.documents import BadPartsError
from covalt_git.manifests.machine_folders import check_output
from covalt_git.operations.context import Context
from covalt_git.operations.formats import conversions
from covalt_git.system import atomic_write

if TYPE_CHECKING:
    from covalt_git.operations.formats.conversions import Converted
    from covalt_git.operations.registry import Operation, RequestT, ResultT

_MOST_LINES = 20


def perform(operation: Operation[RequestT, ResultT], **fields: object) -> ResultT:
    """Perform an operation that needs no project, so that it also works outside of one."""
    with Context(Path(), project) as context:
        return operation(context, **fields)


@click.command(cls=JsonCommand)
@click.argument("path", metavar="INPUT", type=click.Path(path_type=Path))
@click.option(
    "--from",
    "source_format",
    metavar="FORMAT",
    help="The input's format, if its content does not show it.",
)
@click.option("--to", "target_format", metavar="FORMAT", required=True, help="The format to write.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, allow_dash=True),
    help="The file, folder or .zip to write; default: -, standard output.",
)
@click.option("--force", is_flag=True, help="Replace an existing file.")
@click.option("--strict", is_flag=True, help="Exit with 1, and write nothing, if a value is lost.")
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the report to this file, as JSON.",
)
@click.option(
    "--skip-bad", is_flag=True, help="Leave out wrong servers and skills, and report them as lost."
)
@click.option("--dry-run", is_flag=True, help="Only report; write nothing.")
def command(*, report: Path | None, **how: Any) -> None:
    """Convert tools from one format to another, and report what the target cannot hold.

    INPUT is a file, a folder or a ZIP.  No tool runs, and no connection is made.  Credentials are not
    copied: the output refers to secrets by name.

    Example: covalt-git convert .mcp.json --to toolset -o toolsets/mcp
    """
    if str(how["output"]) == "-":
        how["output"] = None
    result = _converted(how)
    if report is not None:
        text = json.dumps(
            result.model_dump(mode="json", exclude={"files"}), indent=2, ensure_ascii=False
        )
        # Before print_json, which ends the command with --json. A clone may have a link here, which leads outside of
        # the project.
        check_output(report)
        atomic_write.replace(report, f"{text}\n")
    failed = bool(how["strict"] and result.lost)
    print_json(result, exit_code=int(failed))
    _print(result, dry_run=how["dry_run"] or failed)
    if failed:
        raise SystemExit(1)


def _converted(how: dict[str, Any]) -> Converted:
    """Convert the input; a user at a terminal can leave out its wrong parts."""
    try:
        return perform(conversions.convert_file, **how)
    except BadPartsError as error:
        if not can_ask() or wants_json():
            raise
        output.error(error, as_json=False)
        output.confirm(f"leave out {', '.join(error.parts)}?", abort=True)
    return perform(conversions.convert_file, **{**how, "skip_bad": True})


def _print(result: Converted, *, dry_run: bool) -> None:
    if not result.written and not dry_run:
        if len(result.files) > 1 or any(file.encoding != "utf-8" for file in result.files):
            raise WrongCallError(f"the output has {len(result.files)} files", hint="add -o FOLDER")
        click.echo(result.files[0].content, nl=False)
    for path in result.written:
        output.say(f"wrote {path}", err=True)
    for note in result.notes:
        output.say(f"{note.pointer}: {note.message}", err=True)
    for loss in result.lost[:_MOST_LINES]:
        output.say(f"lost {loss.pointer}: {loss.reason}", err=True, fg="yellow")
    if len(result.lost) > _MOST_LINES:
        output.say(
            f"and {len(result.lost) - _MOST_LINES} more; --report FILE has all of them", err=True
        )
    counts = f"{result.consumed} converted, {result.carried} carried, {len(result.lost)} lost"
    output.say(
        f"{output.plural(result.toolsets, 'toolset')}, {output.plural(result.tools, 'tool')}; values: {counts}",
        err=True,
    )
    if result.destructive:
        verb = "needs" if result.destructive == 1 else "need"
        tools = output.plural(result.destructive, "tool")
        output.say(
            f"{tools} {verb} approval of calls, because they can delete or overwrite data", err=True
        )
