"""``covalt-git tool override``, ``enable`` and ``disable``: this project's changes of a tool."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from covalt_git.cli.call import reason_option
from covalt_git.cli.context import ask, context, print_json
from covalt_git.cli.groups import JsonCommand
from covalt_git.cli.terminal import output
from covalt_git.cli.terminal.problem_text import print_problems
from covalt_git.cli.tool import OVERRIDES
from covalt_git.errors import UnknownNameError, WrongCallError
from covalt_git.json_values import canonical_json
from covalt_git.operations import overrides
from covalt_git.toolsets.overrides import ToolOverridden

if TYPE_CHECKING:
    from covalt_git.json_values import JsonObject
    from covalt_git.toolsets.overrides import ToolOverrides

_WORDS = {field: word for word, field in OVERRIDES.items()}
_TITLES = ("FIELD", "THIS PROJECT", "ITS TOOLSET")

tool_argument = click.argument("tool_id", metavar="TOOL")


@click.command("override", cls=JsonCommand)
@tool_argument
@click.argument("fields", metavar="[FIELD...]", nargs=-1)
@click.option("--name", "name_override", help="Its name for users.")
@click.option("--description", "description_override", help="Its description for users and models.")
@click.option("--renderer", metavar="TYPE", help="The renderer of its results.")
@click.option("--renderer-config", metavar="JSON", help="The configuration of the renderer.")
@click.option(
    "--confirm/--no-confirm",
    "requires_confirmation",
    default=None,
    help="Whether it needs approval.",
)
@click.option("--enable/--disable", "enabled", default=None, help="Whether it is enabled.")
@click.option(
    "--caller",
    "callers",
    multiple=True,
    type=click.Choice(["direct", "script"]),
    help="Who can call it; repeatable.",
)
@click.option(
    "--clear", is_flag=True, help="Remove the overrides of FIELD..., or all of this project."
)
@reason_option
def override(
    tool_id: str,
    fields: tuple[str, ...],
    *,
    clear: bool,
    renderer_config: str | None,
    reason: str | None,
    callers: tuple[str, ...],
    **options: str | bool | None,
) -> None:
    """Override the name, description, renderer or approval of TOOL, or enable it, in this project.

    Without options, show the overrides of this project and of the toolset.  FIELD is one of name,
    description, renderer, renderer-config, confirm, enabled and callers.  Without a terminal, --no-confirm needs
    --no-terminal and a reason.

    Example: covalt-git tool override data-lab:summarize --name Summary
    """
    changes: JsonObject = {name: value for name, value in options.items() if value is not None}
    if renderer_config is not None:
        changes["renderer_config"] = _object(renderer_config)
    if callers:
        changes["callers"] = callers
    cleared = _cleared(fields, clear=clear)
    if both := [_WORDS[field] for field in changes if field in cleared]:
        raise WrongCallError(f"{both[0]} cannot be both set and cleared")
    if not changes and not clear:
        _print(ask(overrides.get_overrides, tool_id=tool_id))
        return
    _print(ask(overrides.override_tool, tool_id=tool_id, clear=cleared, reason=reason, **changes))


@click.command("enable", cls=JsonCommand)
@tool_argument
def enable(tool_id: str) -> None:
    """Enable a tool; in a disabled toolset it stays disabled.

    Example: covalt-git tool enable app-builder:run_command
    """
    _print(ask(overrides.enable_tool, tool_id=tool_id, enabled=True))


@click.command("disable", cls=JsonCommand)
@tool_argument
def disable(tool_id: str) -> None:
    """Disable a tool, which is then listed as disabled and cannot be called.

    Example: covalt-git tool disable app-builder:run_command
    """
    _print(ask(overrides.enable_tool, tool_id=tool_id, enabled=False))


def _object(text: str) -> JsonObject:
    try:
        value = canonical_json.loads(text)
    except canonical_json.NotJsonError as error:
        raise WrongCallError(f"--renderer-config is not JSON: {error.message}") from None
    if not isinstance(value, dict):
        raise WrongCallError(
            '--renderer-config is a JSON object, such as \'{"file": "$args.path"}\''
        )
    return value


def _cleared(fields: tuple[str, ...], *, clear: bool) -> tuple[str, ...]:
    if fields and not clear:
        raise WrongCallError(f"{fields[0]!r} requires --clear, or use the option with this name")
    for word in fields:
        if word not in OVERRIDES:
            raise UnknownNameError(
                "field", word, OVERRIDES, list_with="covalt-git tool override --help"
            )
    return tuple(OVERRIDES[word] for word in fields or OVERRIDES) if clear else ()


def _print(result: ToolOverrides) -> None:
    print_json(result)
    if isinstance(result, ToolOverridden) and not result.changed:
        output.say(f"{result.tool_id} already has these overrides")
    by_us, by_toolset = (
        layer.model_dump(exclude_none=True) for layer in (result.project, result.toolset)
    )
    rows = [
        (word, _field_text(by_us, field), _field_text(by_toolset, field))
        for word, field in OVERRIDES.items()
        if field in by_us or field in by_toolset
    ]
    output.table(rows, titles=_TITLES, empty=f"{result.tool_id} has no overrides")
    if isinstance(result, ToolOverridden):
        print_problems(result.warnings, context().project.root)


def _field_text(override: JsonObject, field: str) -> str:
    value = override.get(field, "-")
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
