"""``covalt-git source skills``: the skills of an MCP server, and their texts before they are accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from covalt_git.cli.context import ask, ask_to_print, can_ask
from covalt_git.cli.groups import JsonCommand, wants_json
from covalt_git.cli.sources.names import single_source, source_argument
from covalt_git.cli.terminal import output
from covalt_git.errors import StaleError
from covalt_git.models.sources.skill_entry import SKILL
from covalt_git.operations import source_skills
from covalt_git.sources.definition_diff import definition_lines
from covalt_git.sources.refresh import UnreadSkillError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from covalt_git.operations.sources import DifferingTool, SourceRow

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
    if not file.skill.accepted and path == SKILL:
        # With the digest, because a refresh may pin another text before the command is run.
        words = f"{source.shown_id} {file.skill.name}@{file.skill.digest}"
        output.say(f"  hint: covalt-git source accept {words}", err=True)


def review(
    source: SourceRow,
    digests: Mapping[str, str | None],
    named: Mapping[str, str],
    *,
    print_: bool,
    print_named: bool = False,
) -> dict[str, str]:
    """Return the digests of the texts of the skills among the definitions to accept, which the user has read.

    ``named`` has the digests that the user named, by the names of the definitions; with ``print_``, the other skills are
    printed, and with ``print_named`` also these: for a script, whose output has the text that it accepts.

    Raises:
        CovaltError: if a definition has another digest, or a skill was not read; nothing is accepted.
    """
    ids = {"toolset_id": source.toolset_id, "namespace": source.namespace}
    for name, digest in named.items():
        # One that is already accepted is not among them.
        if name in digests and digests[name] != digest:
            raise _changed(source, name)
    texts = {}
    for row in ask(source_skills.list_source_skills, **ids).skills:
        if digests.get(row.name) is None:
            continue
        if row.digest != digests[row.name]:
            raise _changed(source, row.name)
        if row.name not in named and not print_:
            raise UnreadSkillError(source.shown_id, row.name)
        if row.name not in named or print_named:
            file = ask(source_skills.read_source_skill, **ids, name=row.name)
            if file.skill.digest != row.digest:
                raise _changed(source, row.name)
            _print_files(file)
            _print_text(file)
        texts[row.name] = row.text_digest
    return texts


def chosen(
    source: SourceRow, differences: Iterable[DifferingTool], *, accepts: bool
) -> tuple[dict[str, str | None], dict[str, str]] | None:
    """Return the digests to accept, and those of the texts of skills; None if the user accepts nothing.

    With ``accepts``, the user sees no text before the acceptance, so skills are left out.
    """
    digests = {tool.name: tool.digest for tool in differences}
    if accepts:
        ids = {"toolset_id": source.toolset_id, "namespace": source.namespace}
        unread = {row.name for row in ask(source_skills.list_source_skills, **ids).skills}
        gone = {name for name, digest in digests.items() if digest is None}
        return {name: digests[name] for name in digests if name in gone or name not in unread}, {}
    if not can_ask():
        return None
    texts = review(source, digests, {}, print_=True)
    return (digests, texts) if output.confirm("accept this?") else None


def hint_unread(source: SourceRow) -> None:
    """Print how to read and accept the skills that are left."""
    for tool in source.to_accept:
        output.say(f"{tool.name} is not accepted: read its text first", err=True)
        output.say(f"  hint: covalt-git source skills {source.shown_id} {tool.name}", err=True)


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
                err=wants_json(),
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
