"""Markdown about all commands, from click."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING

import click

from covalt_git.cli import cli
from docs.site.markdown import anchor, cell, plain, table

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAME = "covalt-git"


def text() -> str:
    """Return a section for each command, and for the options of all commands."""
    context = click.Context(cli, info_name=_NAME)
    parts = ["## List of commands", _list(context), "## Options of all commands"]
    parts += _options(cli, context)
    for name in cli.list_commands(context):
        parts += _section(cli.get_command(context, name), name, context, 2)
    return "\n\n".join(parts)


def _list(context: click.Context) -> str:
    """Return a list of all commands, each with a link to its section; a group has its commands in its line."""
    lines = []
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        if command is None or command.hidden:
            continue
        inner = command.list_commands(context) if isinstance(command, click.Group) else []
        links = [f"[{verb}](#{anchor(f'{_NAME} {name} {verb}')})" for verb in inner]
        short = plain(command.get_short_help_str(100).rstrip("."))
        rest = f": {', '.join(links)}" if links else ""
        lines.append(f"- [{name}](#{anchor(f'{_NAME} {name}')}) ({short}){rest}")
    return "\n".join(lines)


def _section(
    command: click.Command | None, name: str, parent: click.Context, level: int
) -> Iterator[str]:
    if command is None or command.hidden:
        return
    context = click.Context(command, info_name=name, parent=parent)
    yield f"{'#' * level} {context.command_path}"
    is_callable = not isinstance(command, click.Group) or command.invoke_without_command
    if is_callable:
        usage = " ".join(command.collect_usage_pieces(context))
        yield f"```text\n{context.command_path} {usage}\n```"
    yield from _help(command)
    if is_callable:
        yield from _options(command, context)
    if isinstance(command, click.Group):
        for verb in command.list_commands(context):
            yield from _section(command.get_command(context, verb), verb, context, level + 1)


def _help(command: click.Command) -> Iterator[str]:
    """Yield the paragraphs of a command's help; its example is a block that can be copied."""
    for paragraph in inspect.cleandoc(command.help or "").replace("\b\n", "").split("\n\n"):
        match = re.match(r"(?s)Examples?: (.*)", paragraph)
        if match:
            yield f"```console\n$ {' '.join(match[1].split())}\n```"
        else:
            yield plain(paragraph)


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    rows = []
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is None or "--help" in record[0]:
            continue
        names, meaning = record
        if not meaning:  # an argument, which the help describes
            continue
        rows.append((f"`{cell(names)}`", cell(plain(meaning))))
    if rows:
        yield table(("option", "meaning"), rows)
