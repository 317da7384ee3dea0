"""What git pushes: ``receive-pack`` over HTTP, as far as it is the protocol's.

What a push may do is not decided here.  Formats: ``gitprotocol-http(5)`` and
``gitprotocol-pack(5)``; atomic pushes, push options and signed pushes are not offered.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covalt_git.git_store import pkt_lines
from covalt_git.git_store.objects import is_object_id
from covalt_git.git_store.pkt_lines import (
    FLUSH,
    PACK_BAND,
    TOLD_BAND,
    BadRequestError,
    in_band,
    line,
)
from covalt_git.git_store.upload_pack import AGENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from covalt_git.git_store.pkt_lines import Stream
    from covalt_git.git_store.upload_pack import Shown

MOST_COMMANDS = 1_000

_CAPABILITIES = "report-status delete-refs side-band-64k quiet ofs-delta"


@dataclass(frozen=True, slots=True)
class Command:
    """One ref that is to be moved; None stands for no ref, before or afterwards."""

    ref: str
    old: str | None
    new: str | None


@dataclass(frozen=True, slots=True)
class PushRequest:
    """What somebody asks for, before the pack that goes with it."""

    commands: tuple[Command, ...] = ()
    options: frozenset[str] = frozenset()

    @property
    def brings_pack(self) -> bool:
        """Whether a pack follows: where nothing but deleting is asked for, none does."""
        return any(command.new for command in self.commands)


@dataclass(frozen=True, slots=True)
class PushReport:
    """What became of a push.

    Attributes:
        refused: the reason for every ref that did not move.
        unpack: why the pack did not come in, if it did not.
        told: lines for the person who pushes.
    """

    refused: Mapping[str, str]
    unpack: str = ""
    told: Sequence[str] = ()


def advertise(shown: Shown, version: int) -> Iterator[bytes]:
    """Yield the answer to what opens every push; of version 2 there is none, so git uses 0."""
    yield from (line("# service=git-receive-pack\n"), FLUSH)
    if version == 1:
        yield line("version 1\n")
    told = f"object-format={shown.store.object_format}"
    yield from shown.advertisement(f"{_CAPABILITIES} {told} {AGENT}", head=False)


def read_request(stream: Stream, object_format: str) -> PushRequest:
    """Return what a push asks for; the pack that may follow is left in the stream.

    Nothing at all is asked for by git's question whether it may send more.

    Raises:
        BadRequestError: when it is none.
    """
    commands: list[Command] = []
    options: frozenset[str] = frozenset()
    for raw in pkt_lines.read_section(stream):
        if raw.startswith(b"shallow "):
            continue  # whether the history is whole is seen by what comes
        asked, found, chosen = raw.partition(b"\0")
        if found:
            options = frozenset(chosen.decode("utf-8", "replace").split())
        commands.append(_command(asked))
        if len(commands) > MOST_COMMANDS:
            raise BadRequestError(f"a push may move {MOST_COMMANDS} refs")
    if len({command.ref for command in commands}) < len(commands):
        raise BadRequestError("a push moves a ref once")
    told = {option for option in options if option.startswith("object-format=")}
    if commands and told - {f"object-format={object_format}"}:
        raise BadRequestError(f"the chat's objects are named by {object_format}")
    return PushRequest(tuple(commands), options)


def _command(raw: bytes) -> Command:
    text = raw.decode("utf-8", "surrogateescape")
    old, _, rest = text.partition(" ")
    new, _, ref = rest.partition(" ")
    if not (is_object_id(old) and is_object_id(new) and len(old) == len(new) and ref):
        raise BadRequestError("receive-pack got what is no command")
    return Command(ref, _or_none(old), _or_none(new))


def _or_none(oid: str) -> str | None:
    return oid if oid.strip("0") else None


def answer(request: PushRequest, report: PushReport) -> Iterator[bytes]:
    """Yield what git tells whoever pushed."""
    parts = [line(f"unpack {_one_line(report.unpack) or 'ok'}\n")]
    for command in request.commands:
        reason = _one_line(report.refused.get(command.ref, ""))
        told = f"ng {command.ref} {reason}\n" if reason else f"ok {command.ref}\n"
        parts.append(line(told.encode("utf-8", "surrogateescape")))
    status = b"".join([*parts, FLUSH]) if "report-status" in request.options else b""
    if "side-band-64k" not in request.options:
        yield status
        return
    for text in report.told:
        yield from in_band(TOLD_BAND, f"{_one_line(text)}\n".encode("utf-8", "replace"))
    yield from in_band(PACK_BAND, status)
    yield FLUSH


def _one_line(text: str) -> str:
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+", " ", text).rstrip()
