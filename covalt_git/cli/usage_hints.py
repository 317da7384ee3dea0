"""Hints for wrong command lines: similar names, commands of git, the order of words and options, and quotes."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import click

from covalt_git.cli.command_names import COMMANDS, GROUP_COMMANDS
from covalt_git.errors import nearest_harmless
from covalt_git.text.risky_words import is_harmless

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_UNKNOWN_COMMAND = re.compile(r"No such command '(?P<word>[^']*)'")
_UNEXPECTED = re.compile(r"Got unexpected extra arguments? \((?P<words>.*)\)", re.DOTALL)
_FREE_TEXTS = ("title", "text")
_ROLES = ("user", "assistant", "system", "tool")

_WITH_ONE_MORE = {"authority diff": "{0}..{1}", "chat branch new": "{0} {1} --from {2}"}
"""What the user meant by one argument too many, by command."""

_OPTIONS = {
    "chat checkout": {
        "-b": "covalt-git chat branch CHAT NAME\ncovalt-git chat checkout CHAT NAME",
    },
    "chat branch new": {
        "-d": "covalt-git chat branch delete CHAT NAME",
        "-D": "covalt-git chat branch delete CHAT NAME --force",
    },
    "chat log": {"--limit": "use -n or --max-count"},
    "chat read": {"--branch": "covalt-git chat read CHAT BRANCH"},
}
"""What replaces options of other programs, by command."""

_GIT_COMMANDS = {
    "blame": "covalt-git chat log CHAT -- PATH, then chat show CHAT COMMIT",
    "cherry-pick": "covalt-git chat restore CHAT COMMIT PATH, which copies files of a commit",
    "commit": "covalt-git chat status CHAT; changed files are committed before the next call",
    "pull": "git pull in a clone of the chat",
    "rebase": "covalt-git chat merge CHAT BRANCH",
    "reset": "covalt-git chat restore CHAT COMMIT, which keeps the history",
    "revert": "covalt-git chat undo CHAT CALL, or covalt-git chat restore CHAT COMMIT",
    "rm": "the rm of your system in the chat's folder; the next call commits the deletion",
    "stash": "covalt-git chat branch CHAT NAME and chat checkout: each branch keeps its own files",
    "switch": "covalt-git chat checkout CHAT BRANCH",
}
"""Replacements of commands that only git has, for the program and for ``chat``."""


_AS_IN_GIT = ("branch", "checkout", "diff", "log", "merge", "restore", "status")
"""Commands that git has and ``chat`` too."""

_SIMILAR = 0.6
"""Similarity of a misspelt command, such as ``lgo``, to the command."""


def of_git(error: click.UsageError) -> click.UsageError:
    """Return the error of a command that only git has; other errors only lose what click proposes and may destroy."""
    possibilities = getattr(error, "possibilities", None) or []  # click prints them
    if not all(map(is_harmless, possibilities)):
        possibilities.clear()  # all: to propose --from for --forse would be a false guess
    unknown = _UNKNOWN_COMMAND.match(error.message)
    word = unknown["word"] if unknown else ""
    # Not in other groups: for `token rm`, `chat delete` would be a dangerous hint.
    if word in _GIT_COMMANDS and error.ctx and _name(error.ctx) in {"", "chat"}:
        message = f"{word} is a command of git; use {_GIT_COMMANDS[word]}"
        return click.UsageError(message, error.ctx)
    return error


def hint_of(error: click.UsageError, argv: Sequence[str]) -> str:
    """Return the command line that the user probably meant by ``argv``; empty if none is similar."""
    ctx = error.ctx
    if ctx is None:
        return ""
    if getattr(error, "possibilities", None):
        return ""  # the message of click names them
    if unknown := _UNKNOWN_COMMAND.match(error.message):
        return _for_command(ctx, unknown["word"], list(argv))
    if extra := _UNEXPECTED.match(error.message):
        return _for_extra_words(ctx, extra["words"].split())
    if isinstance(error, click.NoSuchOption):
        return _for_option(ctx, error.option_name)
    return ""


def _for_command(ctx: click.Context, word: str, argv: list[str]) -> str:
    """Return the command lines of groups that have the command, the nearest command, or a line with a missing subcommand."""
    if not isinstance(ctx.command, click.Group):
        return ""
    names = ctx.command.list_commands(ctx)
    path = ctx.command_path.split()[1:]
    at = _position(ctx, word, argv)
    rest = argv[at + 1 :]
    prefix = argv[: _position(ctx, path[0], argv)] if path else argv[:at]

    def pasted(*words: str) -> str:
        return shlex.join([ctx.command_path.split()[0], *prefix, *words, *rest])

    if elsewhere := _in_groups(word, path):
        return "\n".join(pasted(*command.split()) for command in elsewhere)
    if not is_harmless(word):  # what is similar is something else
        return ""
    # Subcommands are read last, because this imports the modules of all of them: at the root, of the whole program.
    if near := nearest_harmless(word, names, is_harmless, cutoff=_SIMILAR):
        return f"did you mean '{near}'?"
    with_subcommand = [
        pasted(*path, name, word)
        for name in names
        if path and rest and is_harmless(name) and _takes(ctx, name, rest)
    ]
    near = nearest_harmless(word, names, is_harmless)
    return "\n".join(with_subcommand) or (f"did you mean '{near}'?" if near else "")


def _position(ctx: click.Context, word: str, argv: list[str]) -> int:
    """Return the index of a command's name, which may also be the value of an option before it."""
    takes_value: set[str] = set()
    above: click.Context | None = ctx
    while above is not None:
        takes_value |= {
            name for option in _options(above) if not option.is_flag for name in option.opts
        }
        above = above.parent
    places = (i for i, argument in enumerate(argv) if argument == word)
    return next((i for i in places if i == 0 or argv[i - 1] not in takes_value), len(argv))


def _in_groups(word: str, path: list[str]) -> list[str]:
    """Return the commands of this name: those below the group ``path``, or else those of the nearest groups."""
    if not path and word in _AS_IN_GIT:
        return [f"chat {word}"]
    commands = [
        f"{group} {word}" for group, names in GROUP_COMMANDS.items() if word in names.split()
    ]
    commands += [word] * (word in COMMANDS)
    matches = [command for command in commands if command.split()[: len(path)] == path] or commands
    depth = min((command.count(" ") for command in matches), default=0)
    nearest = [command for command in matches if command.count(" ") == depth]
    return [command for command in nearest if is_harmless(command)]


def _takes(ctx: click.Context, name: str, words: Sequence[str]) -> bool:
    """Return whether one of the words is an option of a subcommand, or one of its choices."""
    assert isinstance(ctx.command, click.Group)
    has_option = any(word.startswith("-") for word in words)
    if not has_option and name in getattr(ctx.command, "places", ()):
        # Importing the modules of all commands takes longer than the rest of the answer.
        return False
    command = ctx.command.get_command(ctx, name)
    choices: set[str] = set()
    for parameter in command.params if command else ():
        choices |= {*parameter.opts} - {"--json"}
        if isinstance(parameter, click.Argument) and isinstance(parameter.type, click.Choice):
            choices |= {*parameter.type.choices}
    return not choices.isdisjoint(words)


def _for_extra_words(ctx: click.Context, extra: Sequence[str]) -> str:
    """Return a hint for extra words: the last argument in quotes, the command's options, or a command line."""
    arguments = [
        parameter.name for parameter in ctx.command.params if isinstance(parameter, click.Argument)
    ]
    if _name(ctx) in _AS_IN_GIT:  # of the whole project, and the user means a chat
        return shlex.join([ctx.find_root().info_name or "", "chat", _name(ctx), *extra])
    if not arguments:
        options = [_written(option, ctx) for option in _options(ctx) if not option.is_flag]
        return f"it takes options only: {', '.join(options)}" if options else ""
    words = [*(str(ctx.params[name]) for name in arguments), *extra]
    if len(extra) == 1 and (meant := _WITH_ONE_MORE.get(_name(ctx))):
        return f"{ctx.command_path} {meant.format(*map(shlex.quote, words))}"
    text = " ".join(words[len(arguments) - 1 :])
    if text.startswith("{"):
        return """write JSON in single quotes, such as '{"path": "index.html"}'"""
    if _name(ctx) == "chat message add" and words[1] in _ROLES:
        return f"{ctx.command_path} {shlex.join([words[0], '--role', words[1], ' '.join(extra)])}"
    if arguments[-1] in _FREE_TEXTS:
        return f"write an argument with spaces in quotes: {shlex.quote(text)}"
    return ""


def _name(ctx: click.Context) -> str:
    """Return the name of a command without the program's."""
    return ctx.command_path.partition(" ")[2]


def _for_option(ctx: click.Context, name: str) -> str:
    """Return the replacement of an option, or the command line with the option moved after the group that has it."""
    if meant := _OPTIONS.get(_name(ctx), {}).get(name):
        return meant
    above = ctx.parent
    while above is not None:
        option = next((option for option in _options(above) if name in option.opts), None)
        if option is not None:
            later = ctx.command_path.removeprefix(above.command_path).split()
            return f"{above.command_path} {_written(option, above)} {' '.join(later)} ..."
        above = above.parent
    return ""


def _options(ctx: click.Context) -> Iterator[click.Option]:
    return (option for option in ctx.command.params if isinstance(option, click.Option))


def _written(option: click.Option, ctx: click.Context) -> str:
    """Return an option with its value, as it is typed: ``--role TEXT``."""
    name = max(option.opts, key=len)
    return name if option.is_flag else f"{name} {option.make_metavar(ctx)}"
