"""The table of command names has every command."""

from collections.abc import Iterator

from click import Context, Group

from covalt_git.cli import cli
from covalt_git.cli.command_names import GROUP_COMMANDS


def groups(group: Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, set[str]]]:
    """Yield the path of each group below this one, and the names of its commands."""
    context = Context(group)
    for name in group.list_commands(context):
        below = group.get_command(context, name)
        if isinstance(below, Group):
            yield " ".join([*path, name]), {*below.list_commands(Context(below))}
            yield from groups(below, (*path, name))


def test_the_table_of_hints_has_the_commands_of_every_group() -> None:
    table = {path: {*names.split()} for path, names in GROUP_COMMANDS.items()}

    assert table == dict(groups(cli))
