"""``covalt-git schema``."""

from __future__ import annotations

from pathlib import Path

import click

from covalt_git.cli.terminal import output
from covalt_git.errors import CovaltError
from covalt_git.manifests.machine_folders import check_output
from covalt_git.manifests.published_schemas import NAMES, file_name, schema_text


@click.command()
@click.argument("name", type=click.Choice(NAMES), required=False)
@click.option("--out", type=click.Path(path_type=Path), help="Write it to this file instead.")
def command(name: str | None, out: Path | None) -> None:
    """Print the JSON Schema of toolset.yaml, covalt.yaml or a state file.

    Editors with the YAML language server use it for completion and checks. Without NAME, it is the schema of
    toolset.yaml; with --out, all three are written to that folder.

    Example: covalt-git schema toolset
    """
    if out is None:
        click.echo(schema_text(name or NAMES[0]), nl=False)
        return
    files = (
        {out: name}
        if name
        else {out / file_name(schema_name): schema_name for schema_name in NAMES}
    )
    for file, schema_name in files.items():
        # A clone may have a link here (test_no_schema_is_written_through_a_linked_file).
        check_output(file)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(schema_text(schema_name), encoding="utf-8", newline="\n")
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            hint = f"covalt-git schema {name or ''} --out {file_name(schema_name)}".replace(
                "  ", " "
            )
            raise CovaltError(f"{str(file)!r} cannot be a file", hint=hint) from None
        output.say(f"wrote {file}")
