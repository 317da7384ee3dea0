"""``covalt-git secret``: which secrets are asked for and where each comes from, and never a value."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from covalt_git.access.grants import granted
from covalt_git.cli import output
from covalt_git.cli.context import as_admin, json_option
from covalt_git.credentials.command import SecretCommand, SecretCommandError
from covalt_git.credentials.values import SHORTEST, SecretStore
from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.manifests.toolset_files import toolset_ids
from covalt_git.toolsets.toolset import read_toolset

if TYPE_CHECKING:
    from covalt_git.json_values import JsonObject
    from covalt_git.project import Project

_as_admin = partial(as_admin, "see where secrets come from")
_TITLES = ("SECRET", "TOOLSET", "MAY GO TO", "COMES FROM")


@click.group()
def command() -> None:
    """See which secrets toolsets ask for, and where each comes from; allow what prints them.

    A value comes from secrets.env in your own folder, else from the environment, else from the
    secret_command of covalt.yaml, once you have allowed that.
    """


@command.command("list")
@json_option
def list_secrets(*, as_json: bool) -> None:
    """List what toolsets ask for, where it may be sent, and where it comes from; nobody is asked."""
    found = _asked_for(_as_admin())
    if as_json:
        output.as_json(found)
    elif found:
        rows = [(one["name"], one["toolset_id"], _goes_to(one), _from(one)) for one in found]
        output.table(rows, titles=_TITLES)
    else:
        output.say("no toolset asks for a secret")


@command.command("check")
@click.argument("name")
@json_option
def check(name: str, *, as_json: bool) -> None:
    """Look up the secret NAME as a call would, and tell where it comes from and how long it is."""
    opened = _as_admin()
    known = {one["name"] for one in _asked_for(opened)}
    if name not in known:
        raise UnknownNameError("secret", name, known, list_with="covalt-git secret list")
    printer = SecretCommand.of(opened.root, opened.config.secret_command)
    store = SecretStore.of_this_machine(printer.ask if printer else None)
    source = store.source(name) or ("command" if printer else None)
    try:
        value = store.value(name)
    except SecretCommandError as error:
        if error.said and output.is_watched():  # it may hold the value, and a log would keep it
            output.say(error.said, err=True, dim=True)
        raise
    if value is None:
        raise CovaltError(f"{name!r} is not set", hint=f"export {name}=...")
    if as_json:
        output.as_json({"name": name, "source": source, "characters": len(value)})
        return
    output.say(f"{name}: {output.plural(len(value), 'character')}, from the {source}")
    if len(value) < SHORTEST:
        output.say("  it is too short to be masked in what is recorded", fg="yellow")


@command.command("allow")
@json_option
def allow(*, as_json: bool) -> None:
    """Let the secret_command of covalt.yaml, as it is now, run on this machine for this project."""
    printer = _command(_as_admin())
    printer.allow()
    if as_json:
        output.as_json(_allowed(printer))
        return
    output.say(f"this may run here, for secrets that were granted: {printer}")
    output.say(
        "a change of it in covalt.yaml asks again; to take it back: covalt-git secret forbid"
    )


@command.command("forbid")
@json_option
def forbid(*, as_json: bool) -> None:
    """Let the secret_command of covalt.yaml run here no longer."""
    printer = _command(_as_admin())
    was = printer.forbid()
    if as_json:
        output.as_json(_allowed(printer))
        return
    output.say("it may run here no longer" if was else "it was not allowed")


def _asked_for(opened: Project) -> list[JsonObject]:
    """Return every secret that a toolset declares, sorted by name and toolset."""
    printer = SecretCommand.of(opened.root, opened.config.secret_command)
    by_command = "command" if printer else None
    store = SecretStore.of_this_machine()
    found: list[JsonObject] = []
    for toolset_id in toolset_ids(opened.root / "toolsets"):
        toolset = read_toolset(opened.root, toolset_id)
        may = granted(toolset.id, toolset.state, toolset.digest)
        for name in toolset.manifest.secrets if toolset.manifest else ():
            source = store.source(name) or by_command
            one: JsonObject = {
                "name": name,
                "toolset_id": toolset.id,
                "granted": name in may.secrets,
                "hosts": [rule.text for rule in may.secrets[name].rules]
                if name in may.secrets
                else [],
                "source": source,
            }
            if source == "command" and printer:
                one["allowed"] = printer.is_allowed
            found.append(one)
    return sorted(found, key=lambda one: (one["name"], one["toolset_id"]))


def _goes_to(one: JsonObject) -> str:
    return ", ".join(one["hosts"]) or ("its Python" if one["granted"] else "nowhere")


def _from(one: JsonObject) -> str:
    if one.get("allowed") is False:
        return "the command, once allowed: covalt-git secret allow"
    return f"the {one['source']}" if one["source"] else "nowhere: it is not set"


def _allowed(printer: SecretCommand) -> JsonObject:
    return {
        "argv": list(printer.argv),
        "project": str(printer.root),
        "allowed": printer.is_allowed,
    }


def _command(opened: Project) -> SecretCommand:
    printer = SecretCommand.of(opened.root, opened.config.secret_command)
    if printer is None:
        raise CovaltError(
            "covalt.yaml names no secret_command",
            hint="add a line to it: secret_command: [pass, show, '{name}']",
        )
    return printer
