"""Shared parts of commands: the project, the context of operations, and output as JSON."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from covalt_git.access.decisions import acting, sees_everything
from covalt_git.cli.groups import wants_json
from covalt_git.cli.terminal import output
from covalt_git.cli.terminal.progress_bar import Bar
from covalt_git.cli.trust_question import offer_trust
from covalt_git.errors import CovaltError, WrongCallError
from covalt_git.manifests.followed_project import current_root
from covalt_git.manifests.project_root import find_root
from covalt_git.operations.context import Context
from covalt_git.operations.registry import TRUSTING
from covalt_git.trust import NotTrustedError

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.index.index import Index
    from covalt_git.operations.registry import Operation, RequestT, ResultT
    from covalt_git.project import Project

chat_argument = click.argument("chat_id", metavar="CHAT")
_CONTEXT = "covalt_git.context"
_ROOT = "covalt_git.root"
_TOKEN_FILE = "covalt_git.token_file"  # noqa: S105 - a key


def project() -> Project:
    """Open the project of the command line."""
    from covalt_git.project import Project  # noqa: PLC0415 - validate needs only the folder

    role = click.get_current_context().find_root().obj["role"]
    opened = replace(Project.open(_root(), role=role), on_progress=Bar("updating the index"))
    file = click.get_current_context().find_root().meta.get(_TOKEN_FILE)
    return opened if file is None else opened.with_token(file)


def _root() -> Path:
    """Return the root of the command's project: of a node, the same commit until the command ends."""
    root = click.get_current_context().find_root()
    if _ROOT not in root.meta:
        root.meta[_ROOT] = current_root(find_root(root.obj["root"]))
    folder: Path = root.meta[_ROOT]
    return folder


def use_token(file: Path) -> None:
    """Let the command's calls have the access token in a file; an invalid one is an error when the project is opened."""
    click.get_current_context().find_root().meta[_TOKEN_FILE] = file


def print_json(result: Any, *, exit_code: int = 0) -> None:
    """Print a result and end the command, if it was given ``--json``."""
    if wants_json():
        output.as_json(result)
        raise click.exceptions.Exit(exit_code)


def context(**options: Any) -> Context:
    """Return the context of the command's operations, which is closed when the command ends.

    ``options`` are arguments of :class:`Context`; they have an effect only at the first use in a command.
    With ``--json``, the notes on a workspace are part of the result.  Without it, they are printed after each
    write, even if the command then fails, because the next write does not report them again.
    """
    root = click.get_current_context().find_root()
    if _CONTEXT not in root.meta:
        notes = None if wants_json() else output.notes
        folder = _root()
        root.meta[_CONTEXT] = root.with_resource(
            Context(
                folder,
                project,
                **{
                    "progress": Bar("toolsets"),
                    "waiting": waiting,
                    "report_notes": notes,
                    "report": partial(output.say, err=True, dim=True),
                    "check_user": check_user,
                    "read_line": _read_line,
                    **options,
                },
            )
        )
    command_context: Context = root.meta[_CONTEXT]
    return command_context


def ask(operation: Operation[RequestT, ResultT], **fields: object) -> ResultT:
    """Perform an operation on the project that the command line names.

    If it needs permissions that are not trusted on this machine, ask for trust at a terminal and perform it then:
    it was refused before it did anything.

    Raises:
        InvalidRequestError: when a field is missing or invalid.
        CovaltError: as the operation.
    """
    try:
        return operation(context(), **fields)
    except NotTrustedError:
        if not can_ask() or not offer_trust(context()):
            raise
    return operation(context(), **fields)


def ask_to_print(operation: Operation[RequestT, ResultT], **fields: object) -> ResultT:
    """Perform an operation, and return its result to print as text.

    With ``--json``, the result is printed as JSON instead, and the command ends.

    Raises:
        CovaltError: as :func:`ask`.
    """
    result = ask(operation, **fields)
    print_json(result)
    return result


def _read_line() -> str:
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line


def waiting(holder: str) -> None:
    """Print which process a command waits for."""
    output.say(f"waiting for the chat: {holder} is writing", err=True, dim=True)


def can_ask() -> bool:
    """Return whether a user at a terminal can answer a question."""
    # The output too: a user cannot read a question that is written to a file or a pipe.
    return sys.stdin.isatty() and sys.stdout.isatty()


def check_user(reason: str | None, what: str = TRUSTING, *, elsewhere: str = "") -> None:
    """Refuse a decision of a user without a terminal or a reason: agents run commands without a terminal.

    Each operation that gives a consent or accepts a signer asks for this.  Commands ask before their questions, too.

    Raises:
        CovaltError: ``terminal_needed``, when there is neither.
    """
    if reason is None and not can_ask():
        ways = ["run this at a terminal", *filter(None, [elsewhere])]
        here = click.get_current_context(silent=True)
        if here and any("--no-terminal" in option.opts for option in here.command.params):
            ways.append("state the reason of a script with --no-terminal REASON")
        raise CovaltError(
            f"{what} by a user at a terminal",
            hint=", or ".join(ways),
            code="terminal_needed",
        )


def synced(index: Index) -> None:
    """Bring the index up to date, and print the chats that cannot be read."""
    for chat_id, error in index.sync():
        output.damaged(chat_id, error.message, error.hint)


def read_argument_file(file: Path) -> str:
    """Return the text of a file on the command line, or of standard input for ``-``.

    Raises:
        WrongCallError: if it cannot be read or is not UTF-8.
    """
    try:
        content = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        # Some editors write a byte order mark.
        return content.decode("utf-8-sig")
    except OSError as error:
        raise WrongCallError(f"{file} cannot be read: {(error.strerror or '').lower()}") from None
    except UnicodeDecodeError as error:
        raise WrongCallError(f"{file} is not UTF-8: byte {error.start}") from None


def warn_without_role(
    opened: Project, role: str | None, command: str, *, is_agent: bool = False
) -> bool:
    """Print why a user without a role sees no tool, if covalt.yaml has roles; return whether it does.

    The role that it proposes for an agent is no admin, unless all roles are.
    """
    lines = opened.config.lines_of_default_role
    if role is not None or lines is None:
        return False
    output.say("no tools: no role was named, and covalt.yaml has no default_role", err=True)
    roles = opened.config.roles
    name = min(roles, key=lambda name: (roles[name].admin is is_agent, name))
    hint = command.replace("ROLE", name)
    if not is_agent:  # an agent without a role would have the default one, which is an admin
        hint += f"; or add to covalt.yaml {lines}"
    output.say(f"  hint: {hint}", err=True)
    return True


def say_no_toolsets(command: str, toolset: str | None = None) -> None:
    """Print why a list of toolsets, or of the tools of one, is empty.

    For a role that sees a part of the tools, the sentence is the same whether there are others: a hidden tool does not
    exist for it.
    """
    opened = context().project
    if warn_without_role(opened, opened.principal.role, command):
        return
    if toolset:
        output.say(f"{toolset} has no tools")
    elif sees_everything(opened.config, opened.principal):
        output.say("no toolset has tools; a toolset is a folder toolsets/<id>/ with a toolset.yaml")
    else:
        whose = acting(opened.config, opened.principal)
        output.say(f"no toolset has tools for {whose}; its rights: covalt-git role list")
