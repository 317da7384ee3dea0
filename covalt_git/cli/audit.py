"""``covalt-git audit``: export of who did what, and a check that the history is unchanged."""

from __future__ import annotations

import re
import shutil
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from covalt_git import timestamps
from covalt_git.cli.context import ask, ask_to_print
from covalt_git.cli.groups import Group
from covalt_git.cli.terminal import output
from covalt_git.errors import CovaltError
from covalt_git.operations import audit

_AGE = re.compile(r"([1-9][0-9]{0,5})([dhm])")
_UNITS = {"d": "days", "h": "hours", "m": "minutes"}


@click.group(cls=Group)
def command() -> None:
    """Export who did what, and check the history of chats.  For admins only."""


@command.command("export")
@click.option(
    "--since",
    metavar="TIME",
    help="Only events from a time on, 2026-11-20T17:24:00Z, or of the last 30d, 12h, 45m.",
)
@click.option("--tool", "tool_id", metavar="TOOL", help="Only events of this tool.")
@click.option("--chat", "chat_id", metavar="CHAT", help="Only events of this chat.")
def export(since: str | None, tool_id: str | None, chat_id: str | None) -> None:
    """Print calls, approvals, and refused and asked calls as JSON lines, oldest first.

    They have digests in place of arguments and results.

    Example: covalt-git audit export --since 7d
    """
    file = ask(audit.export_audit, since=_since(since), tool_id=tool_id, chat_id=chat_id)
    with file.stream:
        shutil.copyfileobj(file.stream, sys.stdout.buffer)


@command.command("verify")
@click.argument("chat_id", metavar="[CHAT]", required=False)
@click.option(
    "--allowed-signers",
    "signers",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Keys that may have signed, as for git; by default the one of audit.sign_key only.",
)
def verify(chat_id: str | None, signers: Path | None) -> None:
    """Check signatures, digests, parents and the list of foreign commits of one chat, or of all.

    Names the first commit of each chat that does not fit, and exits with 1 if there is one.

    Example: covalt-git audit verify c1
    """
    lines = None if signers is None else _lines(signers)
    answer = ask_to_print(audit.verify_audit, chat_id=chat_id, allowed_signers=lines)
    for chat in answer.chats:
        numbers = f"{chat.signed} signed, {chat.unsigned} unsigned, {chat.foreign} foreign"
        if chat.misfit is None:
            output.say(f"{chat.chat_id}: {numbers}")
            continue
        place = f" {chat.misfit.commit}" if chat.misfit.commit else ""
        record = f" ({chat.misfit.record_id})" if chat.misfit.record_id else ""
        output.say(f"{chat.chat_id}:{place}{record}: {chat.misfit.why}", fg="red")
    if not answer.fits:
        raise SystemExit(1)


def _since(text: str | None) -> str | None:
    if text is None:
        return None
    match = _AGE.fullmatch(text)
    if match is None:
        try:
            return timestamps.parsed(text)
        except CovaltError as error:
            error.hint = "write 2026-11-20T17:24:00Z, or 30d, 12h or 45m"
            raise
    return timestamps.written(datetime.now(UTC) - timedelta(**{_UNITS[match[2]]: int(match[1])}))


def _lines(file: Path) -> tuple[str, ...]:
    try:
        return tuple(file.read_text(encoding="utf-8").splitlines())
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not UTF-8"
        raise CovaltError(f"{str(file)!r} cannot be read: {why.lower()}") from None
