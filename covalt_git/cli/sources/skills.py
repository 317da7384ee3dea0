"""``covalt-git source skills``: the skills of an MCP server, and their texts before they are accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from covalt_git.cli.context import ask, ask_to_print
from covalt_git.cli.groups import JsonCommand
from covalt_git.cli.sources.names import single_source, source_argument
from covalt_git.cli.terminal import output
from covalt_git.errors import StaleError, WrongCallError
from covalt_git.models.sources.skill_entry import SKILL
from covalt_git.operations import source_skills
from covalt_git.sources.definition_diff import definition_lines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from covalt_git.operations.sources import SourceRow

_COLOURS = {"+": "green", "-": "red"}
_TITLES = ("SKILL", "STATE", "FILES", "BYTES", "DESCRIPTION")


@click.command("skills", cls=JsonCommand)
@source_argument
@click.argument("skill", metavar="[SKILL]", required=False)
@click.argument("path", metavar="[FILE]", default=SKILL)
def skills(name: str, skill: str | None, path: str) -> None:
    """List the skills of an MCP server, or read a file of one.

    A model follows the text of a skill, so read it before you accept it.  FILE is SKILL.md by default; it is read
    from the server, and must have the digest that the server listed.  Characters that are not visible are
    escaped.  If another version is accepted, and was read on this machine, the changed lines are marked.

    Example: covalt-git source skills files/disk tidy-up
    """
    source = single_source(name)
    ids = {"toolset_id": source.toolset_id, "namespace": source.namespace}
    if skill is None:
        listing = ask_to_print(source_skills.list_source_skills, **ids)
        if not source.asked:
            output.say(f"{source.shown_id} was not asked for its skills yet", err=True)
            output.say(f"  hint: covalt-git source refresh {source.shown_id}", err=True)
            return
        output.table(
            [_line(row) for row in listing.skills], titles=_TITLES, empty="it lists no skills"
        )
        return
    file = ask_to_print(source_skills.read_source_skill, **ids, name=skill, path=path)
    _print_files(file)
    if file.text is None:
        output.say(f"{path} is not text: {file.size:,} bytes", err=True)
        return
    _print_text(file)
    if not file.skill.accepted:
        # With the digest, because a refresh may pin another text before the command is run.
        words = f"{source.shown_id} {file.skill.name}@{file.skill.digest}"
        output.say(f"  hint: covalt-git source accept {words}", err=True)


def review(
    source: SourceRow, digests: Mapping[str, str | None], named: Mapping[str, str], *, print_: bool
) -> None:
    """Check that the user has read the skills among the definitions to accept, and print the others with ``print_``.

    ``named`` has the digests that the user named, by the names of the definitions.

    Raises:
        CovaltError: if a definition has another digest, or a skill was not read; nothing is accepted.
    """
    ids = {"toolset_id": source.toolset_id, "namespace": source.namespace}
    for name, digest in named.items():
        # One that is already accepted is not among them.
        if name in digests and digests[name] != digest:
            raise _changed(source, name)
    rows = ask(source_skills.list_source_skills, **ids).skills
    for row in rows:
        if digests.get(row.name) is None or row.name in named:
            continue
        if not print_:
            raise WrongCallError(
                f"the skill {row.name} is accepted only with the digest of the text that was read",
                hint=f"covalt-git source skills {source.shown_id} {row.name}",
            )
        file = ask(source_skills.read_source_skill, **ids, name=row.name)
        if file.skill.digest != digests[row.name]:
            raise _changed(source, row.name)
        _print_files(file)
        _print_text(file)


def _changed(source: SourceRow, name: str) -> StaleError:
    return StaleError(
        f"{source.namespace}:{name} has changed since it was shown; nothing is accepted",
        hint=f"covalt-git source diff {source.shown_id}",
    )


def _print_text(file: source_skills.SkillFileText) -> None:
    """Print the text of a file, or its difference from the accepted one."""
    for line in definition_lines({file.path: (file.accepted_text, file.text)}):
        if line.mark != "@":
            marked = file.accepted_text is not None
            output.fact(
                f"{line.mark} {line.text}" if marked else line.text,
                fg=_COLOURS.get(line.mark) if marked else None,
            )


def _line(row: source_skills.SourceSkill) -> tuple[str, ...]:
    state = "accepted" if row.accepted else "to accept"
    size = sum(row.files.values())
    return (row.name, state, str(len(row.files)), f"{size:,}", row.description)


def _print_files(file: source_skills.SkillFileText) -> None:
    """Print the other files of the skill, which a reviewer may read too."""
    others = [path for path in file.skill.files if path != file.path]
    output.say(f"{file.skill.uri}: {file.path}", bold=True, err=True)
    for path in others:
        output.fact(f"  also: {path}", err=True)
