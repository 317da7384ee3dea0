"""Server side of git's smart HTTP protocol: answers to fetches, and the requests and reports of pushes.

Versions 0 and 1 of the protocol are supported; a client that asks for version 2 gets version 0, which it
accepts.  No state is stored between requests.  Partial clones (``--filter``), histories by date or without a branch
(``--shallow-since``, ``--shallow-exclude``), atomic and signed pushes and push options are not offered.  Formats:
``gitprotocol-http(5)``, ``gitprotocol-pack(5)``.

Dulwich's handlers are not used.  They do not support ``deepen-relative``, refuse a push from a shallow clone, and
write the answer to a file instead of yielding it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from dulwich.errors import GitProtocolError, HangupException
from dulwich.protocol import (
    SIDE_BAND_CHANNEL_DATA,
    SIDE_BAND_CHANNEL_FATAL,
    SIDE_BAND_CHANNEL_PROGRESS,
    ReceivableProtocol,
    pkt_line,
)

from covalt_git.errors import CovaltError
from covalt_git.git_store.graph import CommitGraph, new_in_tree, peeled
from covalt_git.git_store.objects import BrokenStoreError, is_object_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from _typeshed import SupportsRead

    from covalt_git.git_store.object_reader import ObjectReader

FETCH = "git-upload-pack"
PUSH = "git-receive-pack"
MOST_COMMANDS = 1_000  # the history of each is inspected
FLUSH = b"0000"

_AGENT = "agent=covalt-git"
_CAPABILITIES = {
    FETCH: "multi_ack_detailed side-band-64k ofs-delta shallow deepen-relative no-progress",
    PUSH: "report-status delete-refs side-band-64k quiet ofs-delta",
}
_MOST_IN_BAND = 65_515  # git's longest pkt-line has 65,520 bytes: four are its length, one its band
# Python refuses to parse some thousand digits, with an error that no handler of a fetch expects.
_NUMBER = re.compile(r"[0-9]{1,19}")


class BadGitRequestError(CovaltError):
    """A malformed or incomplete request, which git does not send."""

    code = "bad_git_request"


class VisibleRefs(NamedTuple):
    """The refs of a store that a client may see, with their object ids; ``head`` is the ref of HEAD."""

    reader: ObjectReader
    refs: dict[str, str]
    head: str

    def advertise(self, service: str, version: int) -> Iterator[bytes]:
        """Yield the first answer of every fetch and every push: the refs and the server's capabilities."""
        yield from (_line(f"# service={service}\n"), FLUSH)
        if version == 1:
            yield _line("version 1\n")
        rows = sorted(self.refs.items())
        capabilities = (
            f"{_CAPABILITIES[service]} object-format={self.reader.object_format} {_AGENT}"
        )
        if service == FETCH and self.head in self.refs:
            rows.insert(0, ("HEAD", self.refs[self.head]))
            capabilities += f" symref=HEAD:{self.head}"
        digits = self.reader.format.hex_length
        for number, (name, oid) in enumerate(rows or [("capabilities^{}", "0" * digits)]):
            yield _line(f"{oid} {name}" + ("" if number else f"\0{capabilities}") + "\n")
        yield FLUSH


# Pkt-lines


def _line(text: str) -> bytes:
    return pkt_line(text.encode("utf-8", "surrogateescape"))


def _in_band(band: int, parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield parts in a side band, joined to long lines: each line costs a message to the web server's loop."""
    waiting = bytearray()
    for part in parts:
        waiting += part
        while len(waiting) >= _MOST_IN_BAND:
            yield pkt_line(bytes([band]) + waiting[:_MOST_IN_BAND])
            del waiting[:_MOST_IN_BAND]
    if waiting:
        yield pkt_line(bytes([band]) + waiting)


def _lines(stream: SupportsRead[bytes]) -> Iterator[str]:
    """Yield the pkt-lines of a request without their newlines, and an empty one for a flush."""
    protocol = ReceivableProtocol(stream.read, lambda _: None)
    try:
        while True:
            line = protocol.read_pkt_line() or b""
            yield line.removesuffix(b"\n").decode("utf-8", "surrogateescape")
    except HangupException:
        return
    except (AssertionError, GitProtocolError) as error:
        raise BadGitRequestError(f"the request is malformed or cut off: {error}") from None


def _section(lines: Iterator[str]) -> Iterator[str]:
    """Yield the lines up to a flush."""
    for line in lines:
        if not line:
            return
        yield line
    raise BadGitRequestError("the request is cut off")


# Fetch


@dataclass(slots=True)
class _Wants:
    """The first section of a fetch: the wanted objects, and how much of the history the client wants (0: all)."""

    oids: list[str] = field(default_factory=list)
    shallow: set[str] = field(default_factory=set)
    depth: int = 0
    options: set[str] = field(default_factory=set)


def _read_wants(lines: Iterator[str]) -> _Wants:
    """Read the first section of a fetch.

    Raises:
        BadGitRequestError: if the section is malformed.
    """
    wants = _Wants()
    for number, line in enumerate(_section(lines)):
        words = line.split(" ")
        if not number:
            wants.options.update(words[2:])
            words = words[:2]
        match words:
            case ["want", oid] if is_object_id(oid):
                wants.oids.append(oid)
            case ["shallow", oid] if is_object_id(oid):
                wants.shallow.add(oid)
            case ["deepen", depth] if _NUMBER.fullmatch(depth):
                wants.depth = int(depth)
            case _:
                raise BadGitRequestError(f"upload-pack does not support {line!r}")
    if wants.oids and "ofs-delta" not in wants.options:
        raise BadGitRequestError("the client has to support ofs-delta")
    return wants


def fetch(visible: VisibleRefs, stream: SupportsRead[bytes]) -> Iterator[bytes]:
    """Yield the answer to one request of a fetch.

    Raises:
        BadGitRequestError: if the request is malformed; raised before anything is yielded.
    """
    lines = _lines(stream)
    wants = _read_wants(lines)
    # The whole request before the answer: an error in it is a status of HTTP, which nothing can change after
    # the first byte.
    rounds = list(lines)
    return _answer_fetch(visible, wants, rounds) if wants.oids else iter(())


def _answer_fetch(visible: VisibleRefs, wants: _Wants, rounds: list[str]) -> Iterator[bytes]:
    """Acknowledge common commits, and send the pack once the client is done."""
    try:
        sender = _Sender(visible, wants)
        if wants.depth:
            yield from sender.shallow_lines()
            yield FLUSH
        detailed = "multi_ack_detailed" in wants.options
        for line in rounds:
            word, _, oid = line.partition(" ")
            if word == "have":
                # Objects of commits that no visible ref reaches may be deleted already.
                if oid in sender.reachable:
                    sender.common.append(oid)
                    if detailed or len(sender.common) == 1:
                        yield _line(f"ACK {oid}{' common' if detailed else ''}\n")
            elif word == "done":
                if detailed and sender.common:
                    yield _line(f"ACK {sender.common[-1]}\n")
                elif not sender.common:
                    yield _line("NAK\n")
                yield from sender.pack()
                return
            elif detailed or not sender.common:
                yield _line("NAK\n")
    except CovaltError as error:
        yield _line(f"ERR {error.message}\n")


class _Sender:
    """Commits that a client wants, commits that it has, and the objects that it lacks."""

    def __init__(self, visible: VisibleRefs, wants: _Wants) -> None:
        self.common: list[str] = []
        self._reader = visible.reader
        self._wants = wants
        self._graph = CommitGraph(visible.reader)
        refs = set(visible.refs.values())
        heads, _ = peeled(visible.reader, refs)
        self.reachable = self._graph.ancestors(heads)
        for want in wants.oids:
            # A ref may have moved after it was advertised, so the client may want an ancestor.  Nothing else is
            # sent: the store also has deleted branches and pending calls, and an id is no secret.
            if want not in self.reachable and want not in refs:
                raise BadGitRequestError(f"upload-pack: not our ref {want}")
        self._tips, self._others = peeled(visible.reader, wants.oids)
        # A client may have fetched other stores too, and names the boundaries of all its histories.
        self._shallow = wants.shallow & self.reachable.keys()
        self._boundary = self._new_boundary() if wants.depth else self._shallow
        self._reached = self._graph.ancestors(self._tips, self._boundary)

    def shallow_lines(self) -> Iterator[bytes]:
        """Yield the commits at which the client's history newly begins, and those at which it no longer does."""
        for oid in sorted(self._boundary - self._shallow):
            yield _line(f"shallow {oid}")
        for oid in sorted((self._shallow - self._boundary) & self._reached.keys()):
            yield _line(f"unshallow {oid}")

    def pack(self) -> Iterator[bytes]:
        """Yield the pack, in side bands if the client supports them."""
        if "side-band-64k" not in self._wants.options:
            yield from self._reader.pack(self._missing())
            return
        try:
            ids = self._missing()
            if "no-progress" not in self._wants.options:
                text = f"sending {len(ids)} objects\n"
                yield from _in_band(SIDE_BAND_CHANNEL_PROGRESS, [text.encode()])
            yield from _in_band(SIDE_BAND_CHANNEL_DATA, self._reader.pack(ids))
        except BrokenStoreError as error:
            yield from _in_band(SIDE_BAND_CHANNEL_FATAL, [f"{error.message}\n".encode()])
        yield FLUSH

    def _missing(self) -> list[str]:
        """Return the objects that the client lacks."""
        commit = self._graph.commit
        # Below the client's own boundary it has no commits, whatever their children say.
        common = self._graph.ancestors(self.common, self._shallow)
        new = [oid for oid in self._reached if oid not in common]
        parents = {
            parent for oid in new if oid not in self._boundary for parent in commit(oid).parents
        }
        # The trees of the nearest common commits only.  To read those of all would save nothing but files that
        # were deleted and came back.
        listed: set[str] = set()
        for oid in parents & common.keys():
            new_in_tree(self._reader, commit(oid).tree, listed)
        missing = [*self._others, *new]
        for oid in new:
            missing += new_in_tree(self._reader, commit(oid).tree, listed)
        return missing

    def _new_boundary(self) -> set[str]:
        """Return the commits at which the client's history will begin."""
        start, depth = set(self._tips), self._wants.depth - 1
        if "deepen-relative" in self._wants.options:
            visible = self._graph.ancestors(self._tips, self._shallow)
            start, depth = self._shallow & visible.keys(), self._wants.depth
        return {oid for oid, far in self._graph.ancestors(start).items() if far == depth}


# Push


class Command(NamedTuple):
    """One ref that a push moves; ``old`` is None for a new ref, ``new`` for a deleted one."""

    ref: str
    old: str | None
    new: str | None

    @property
    def branch(self) -> str:
        """The name of the branch; the complete ref if it is not one."""
        return self.ref.removeprefix("refs/heads/")


class PushRequest(NamedTuple):
    """The part of a push before its pack.  Git sends an empty one first, to learn whether it may push."""

    commands: tuple[Command, ...] = ()
    options: frozenset[str] = frozenset()

    @property
    def has_pack(self) -> bool:
        """Whether a pack follows; it does unless the push only deletes refs."""
        return any(command.new for command in self.commands)


class PushReport(NamedTuple):
    """The outcome of a push.

    Attributes:
        refused: the reason for every ref that did not move.
        unpack: why the pack was not stored, if it was not.
        messages: lines for the user who pushes.
    """

    refused: Mapping[str, str]
    unpack: str = ""
    messages: Sequence[str] = ()


def read_push(stream: SupportsRead[bytes], object_format: str) -> PushRequest:
    """Read the commands of a push; a pack that follows is not read.

    Raises:
        BadGitRequestError: if the commands are malformed.
    """
    commands: list[Command] = []
    options: frozenset[str] = frozenset()
    for line in _section(_lines(stream)):
        if line.startswith("shallow "):
            continue  # the admission of a push checks that the history is complete
        text, separator, chosen = line.partition("\0")
        options = frozenset(chosen.split()) if separator else options
        commands.append(_command(text))
        if len(commands) > MOST_COMMANDS:
            raise BadGitRequestError(f"a push may move at most {MOST_COMMANDS} refs")
    # The reports are by ref, and the second command was inspected against where the first one had not moved it yet.
    if len({command.ref for command in commands}) < len(commands):
        raise BadGitRequestError("a push must not move a ref twice")
    formats = {option for option in options if option.startswith("object-format=")}
    if formats - {f"object-format={object_format}"}:
        raise BadGitRequestError(f"the chat uses the object format {object_format}")
    return PushRequest(tuple(commands), options)


def _command(text: str) -> Command:
    old, _, rest = text.partition(" ")
    new, _, ref = rest.partition(" ")
    if not (is_object_id(old) and is_object_id(new) and len(old) == len(new) and ref):
        raise BadGitRequestError("receive-pack received an invalid command")
    return Command(ref, old if old.strip("0") else None, new if new.strip("0") else None)


def report_push(request: PushRequest, report: PushReport) -> Iterator[bytes]:
    """Yield the answer to a push."""
    status = _line(f"unpack {_one_line(report.unpack) or 'ok'}\n")
    for command in request.commands:
        reason = _one_line(report.refused.get(command.ref, ""))
        status += _line(f"ng {command.ref} {reason}\n" if reason else f"ok {command.ref}\n")
    status = status + FLUSH if "report-status" in request.options else b""
    if "side-band-64k" not in request.options:
        yield status
        return
    lines = (f"{_one_line(text)}\n".encode("utf-8", "replace") for text in report.messages)
    yield from _in_band(SIDE_BAND_CHANNEL_PROGRESS, lines)
    yield from _in_band(SIDE_BAND_CHANNEL_DATA, [status])
    yield FLUSH


def _one_line(text: str) -> str:
    # A reason quotes paths and names of others: a line break in it would be a line of the report, such as
    # another ref's `ok`.
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+", " ", text).rstrip()
