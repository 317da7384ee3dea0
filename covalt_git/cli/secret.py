"""``covalt-git secret``: secrets of toolsets and their sources, never their values."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from covalt_git.cli.call import reason_option
from covalt_git.cli.context import ask, ask_to_print, check_user, print_json, read_argument_file
from covalt_git.cli.groups import Group, wants_json
from covalt_git.cli.terminal import output
from covalt_git.credentials.command import SecretCommandError
from covalt_git.operations.credentials import secrets
from covalt_git.text import display

if TYPE_CHECKING:
    from collections.abc import Iterable

_TITLES = ("SECRET", "TOOLSET", "SENT TO", "SOURCE")


@click.group(cls=Group)
def command() -> None:
    """List the secrets of toolsets and their sources; set values; allow the secret_command.

    The sources are, in this order: secrets.env in your configuration folder, the environment, and the
    secret_command of covalt.yaml, if you have allowed it.
    """


@command.command("list")
def list_secrets() -> None:
    """List the secrets of toolsets, the hosts that may receive them, and their sources.

    Example: covalt-git secret list
    """
    listing = ask_to_print(secrets.list_secrets)
    rows = [(row.name, row.toolset_id, _recipients(row), _from(row)) for row in listing.secrets]
    output.table(rows, titles=_TITLES, empty="no toolset requests a secret")


def _recipients(row: secrets.SecretRow) -> str:
    untrusted = ", not trusted on this machine" if row.granted and not row.trusted else ""
    return recipients(row.hosts, python=row.python) + untrusted


@command.command("check")
@click.argument("name")
def check(name: str) -> None:
    """Look up the secret NAME as a call does, and print its source and its length.

    Example: covalt-git secret check WEATHER_KEY
    """
    try:
        secret = ask(secrets.check_secret, name=name)
    except SecretCommandError as error:
        # It may contain the value, so only a terminal gets it, and no log
        # (test_only_a_terminal_shows_the_errors_of_the_command).
        if error.stderr and output.is_watched():
            output.say(error.stderr, err=True, dim=True)
        raise
    print_json(secret)
    output.say(f"{name}: {output.plural(secret.characters, 'character')}, from the {secret.source}")
    if not secret.masked:
        output.say("  it is too short to be masked in records", fg="yellow")


@command.command("set")
@click.argument("name")
def set_value(name: str) -> None:
    """Store the value of the secret NAME in secrets.env, which only you can read.

    If other users can access the file, its mode becomes 600.

    Asks for the value at a terminal, and otherwise reads it from standard input.  Never write a value into a command: the
    history of your shell would have it.

    Example: covalt-git secret set WEATHER_KEY
    """
    if sys.stdin.isatty():
        value = click.prompt(f"value of {display.in_line(name)}", hide_input=True, err=True)
    else:
        value = read_argument_file(Path("-")).removesuffix("\n").removesuffix("\r")
    secret = ask_to_print(secrets.set_secret, name=name, value=value)
    output.say(f"stored the value of {name} in {secret.file}")
    if secret.narrowed:
        output.say(
            "  other users could access this file before; now only you can (mode 600)", fg="yellow"
        )
    if not secret.masked:
        output.say("  it is too short to be masked in records", fg="yellow")


@command.command("allow")
@reason_option
def allow(*, reason: str | None) -> None:
    """Allow the current secret_command of covalt.yaml to run on this machine.

    Prints the command, and asks at a terminal.

    Example: covalt-git secret allow
    """
    argv = ask(secrets.get_secret_command).argv
    check_user(reason)
    if reason is None and not wants_json():
        output.say("This program would run on this machine, outside of the sandbox:")
        output.fact(f"  {display.in_line(shlex.join(argv))}")
        if not output.confirm("allow it?"):
            output.say("it is not allowed")
            raise SystemExit(1)
    command = ask_to_print(secrets.allow_secret_command, argv=argv, reason=reason)
    output.say(f"allowed to run for granted secrets: {display.in_line(shlex.join(command.argv))}")
    output.say(
        "this ends if covalt.yaml changes the command; to forbid it: covalt-git secret forbid"
    )


@command.command("forbid")
def forbid() -> None:
    """Forbid the secret_command of covalt.yaml to run on this machine.

    Example: covalt-git secret forbid
    """
    command = ask_to_print(secrets.forbid_secret_command)
    output.say("no longer allowed" if command.changed else "it was not allowed")


def recipients(hosts: Iterable[str], *, python: bool) -> str:
    """Return which tools receive a secret, and the hosts to which HTTP tools may send it."""
    named = ", ".join(hosts)
    receivers = [f"HTTP tools: {named}"] * bool(named) + ["Python tools"] * python
    return "; ".join(receivers) or "nowhere"


def _from(row: secrets.SecretRow) -> str:
    if row.allowed is False:
        return "the command, if you allow it: covalt-git secret allow"
    return f"the {row.source}" if row.source else "not set"
