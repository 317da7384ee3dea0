"""What git fetches: ``upload-pack`` over HTTP, in the protocol's versions 0, 1 and 2.

Each request stands for itself, so nothing is kept between two of them.  Formats:
``gitprotocol-http(5)``, ``gitprotocol-pack(5)`` and ``gitprotocol-v2(5)``; partial clones
(``--filter``) are not offered, and git then makes whole ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.git_store import pkt_lines
from covalt_git.git_store.ancestry import Ancestry
from covalt_git.git_store.checking import SUBMODULE
from covalt_git.git_store.objects import BrokenStoreError, is_object_id
from covalt_git.git_store.pkt_lines import (
    DELIMITER,
    FATAL_BAND,
    FLUSH,
    PACK_BAND,
    TOLD_BAND,
    BadRequestError,
    Mark,
    line,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.git_store.pkt_lines import Stream
    from covalt_git.git_store.store import GitStore

AGENT = "agent=covalt-git"

_CAPABILITIES = (
    "multi_ack_detailed side-band-64k thin-pack ofs-delta shallow deepen-since deepen-not "
    "deepen-relative no-progress"
)
_NO_REF = "capabilities^{}"


@dataclass(frozen=True, slots=True)
class Shown:
    """What of a store may be fetched: ``refs`` with the ids they are at; ``head`` is HEAD's."""

    store: GitStore
    refs: dict[str, str]
    head: str

    def named(self) -> list[tuple[str, str]]:
        """Return all names with their ids in the order in which git tells them."""
        first = [("HEAD", self.refs[self.head])] if self.head in self.refs else []
        return first + sorted(self.refs.items())

    def advertisement(self, capabilities: str, *, head: bool = True) -> Iterator[bytes]:
        """Yield the refs as versions 0 and 1 tell them, the capabilities behind the first."""
        refs = self.named() if head else sorted(self.refs.items())
        nothing = [(_NO_REF, "0" * (64 if self.store.object_format == "sha256" else 40))]
        for number, (name, oid) in enumerate(refs or nothing):
            yield line(f"{oid} {name}" + ("" if number else f"\0{capabilities}") + "\n")
        yield FLUSH


def advertise(shown: Shown, version: int) -> Iterator[bytes]:
    """Yield the answer to what opens every fetch."""
    told = f"object-format={shown.store.object_format}"
    if version == 2:  # noqa: PLR2004 - the protocol's
        for capability in ("version 2", AGENT, "ls-refs=unborn", "fetch=shallow", told):
            yield line(f"{capability}\n")
        yield FLUSH
        return
    yield from (line("# service=git-upload-pack\n"), FLUSH)
    if version == 1:
        yield line("version 1\n")
    symref = f" symref=HEAD:{shown.head}" if shown.head in shown.refs else ""
    yield from shown.advertisement(f"{_CAPABILITIES}{symref} {told} {AGENT}")


def answer(shown: Shown, stream: Stream, version: int) -> Iterator[bytes]:
    """Yield the answer to one request of a fetch.

    Raises:
        BadRequestError: when it is none, before anything was answered.
    """
    if version == 2:  # noqa: PLR2004 - the protocol's
        return _answer_command(shown, stream)
    wish = _read_wish(stream)
    return _told(_negotiate(shown, wish, _read_rounds(stream)))


def _told(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Yield an answer, and in place of what cannot be answered the reason, as git shows it."""
    try:
        yield from parts
    except CovaltError as error:
        yield line(f"ERR {error.message}\n")


@dataclass(slots=True)
class _Wish:
    """What somebody wants, and what they say they have."""

    wants: list[str] = field(default_factory=list)
    haves: list[str] = field(default_factory=list)
    shallow: set[str] = field(default_factory=set)
    depth: int = 0
    relative: bool = False
    since: int | None = None
    without: list[str] = field(default_factory=list)
    options: set[str] = field(default_factory=set)

    @property
    def deepens(self) -> bool:
        """Whether it says how far back the history shall go."""
        return bool(self.depth) or self.since is not None or bool(self.without)

    def take(self, text: str) -> bool:
        """Understand one line of a request; return whether it is one of a wish."""
        word, _, value = text.partition(" ")
        match word:
            case "want" | "have" | "shallow":
                if not is_object_id(value):
                    raise BadRequestError(f"{value!r} is no object id")
                if word == "shallow":
                    self.shallow.add(value)
                else:
                    (self.wants if word == "want" else self.haves).append(value)
            case "deepen":
                self.depth = _number(value)
            case "deepen-since":
                self.since = _number(value)
            case "deepen-not":
                self.without.append(value)
            case "deepen-relative":
                self.relative = True
            case "done" | "thin-pack" | "no-progress" | "ofs-delta" | "include-tag":
                self.options.add(word)
            case _:
                return False
        return True


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):  # noqa: PLR2004 - of 64 bits
        raise BadRequestError(f"{text!r} is no number")
    return int(text)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


# Version 2: a command, and all that it needs


def _answer_command(shown: Shown, stream: Stream) -> Iterator[bytes]:
    command, arguments = _read_command(stream)
    if command == "ls-refs":
        return _list_refs(shown, arguments)
    if command != "fetch":
        raise BadRequestError(f"there is no command {command!r}")
    wish = _Wish()
    for text in arguments:
        if not wish.take(text):
            raise BadRequestError(f"fetch does not know {text!r}")
    return _told(_fetch(shown, wish))


def _read_command(stream: Stream) -> tuple[str, list[str]]:
    head: list[str] = []
    while isinstance(found := pkt_lines.read(stream), bytes):
        head.append(_text(found))
    commands = [text.removeprefix("command=") for text in head if text.startswith("command=")]
    if len(commands) != 1:
        raise BadRequestError("the request names no command")
    if found is Mark.DELIMITER:
        return commands[0], [_text(one) for one in pkt_lines.read_section(stream)]
    return commands[0], []


def _list_refs(shown: Shown, arguments: list[str]) -> Iterator[bytes]:
    prefixes = tuple(
        text.removeprefix("ref-prefix ") for text in arguments if text.startswith("ref-prefix ")
    ) or ("",)
    symref = f" symref-target:{shown.head}" if "symrefs" in arguments else ""
    if "unborn" in arguments and shown.head not in shown.refs and "HEAD".startswith(prefixes):
        yield line(f"unborn HEAD{symref}\n")
    for name, oid in shown.named():
        if name.startswith(prefixes):
            yield line(f"{oid} {name}{symref if name == 'HEAD' else ''}\n")
    yield FLUSH


def _fetch(shown: Shown, wish: _Wish) -> Iterator[bytes]:
    if not wish.wants:
        yield FLUSH
        return
    sending = _Sending(shown, wish)
    for oid in wish.haves:
        sending.meet(oid)
    if wish.haves and "done" not in wish.options:
        yield line("acknowledgments\n")
        for oid in sending.common:
            yield line(f"ACK {oid}\n")
        if not sending.common:
            yield line("NAK\n")
        if not sending.is_enough():
            yield FLUSH
            return
        yield line("ready\n")
        yield DELIMITER
    if wish.deepens:
        yield line("shallow-info\n")
        yield from sending.boundary_lines()
        yield DELIMITER
    yield line("packfile\n")
    yield from sending.in_bands()
    yield FLUSH


# Versions 0 and 1: what is wanted, and then what is had, in several rounds


def _read_wish(stream: Stream) -> _Wish:
    """Return what is wanted; the capabilities that were chosen are among its options."""
    wish = _Wish()
    for number, raw in enumerate(pkt_lines.read_section(stream)):
        text = _text(raw)
        if not number:
            word, _, rest = text.partition(" ")
            oid, _, chosen = rest.partition(" ")
            wish.options.update(chosen.split())
            wish.relative = "deepen-relative" in wish.options
            text = f"{word} {oid}"
        if not wish.take(text):
            raise BadRequestError(f"upload-pack does not know {text!r}")
    return wish


def _read_rounds(stream: Stream) -> list[str]:
    """Return the lines that follow a wish, an empty one where a round of them ends."""
    rounds = []
    while (found := pkt_lines.read(stream)) is not None:
        rounds.append(_text(found) if isinstance(found, bytes) else "")
    return rounds


def _negotiate(shown: Shown, wish: _Wish, rounds: list[str]) -> Iterator[bytes]:
    """Answer every ``have``, and send the pack once the client is done."""
    if not wish.wants:
        return
    sending = _Sending(shown, wish)
    if wish.deepens:
        yield from sending.boundary_lines()
        yield FLUSH
    detailed = "multi_ack_detailed" in wish.options
    for text in rounds:
        word, _, oid = text.partition(" ")
        if word == "have":
            if sending.meet(oid) and (detailed or len(sending.common) == 1):
                yield line(f"ACK {oid}{' common' if detailed else ''}\n")
        elif word == "done":
            if detailed and sending.common:
                yield line(f"ACK {sending.common[-1]}\n")
            elif not sending.common:
                yield line("NAK\n")
            if "side-band-64k" in wish.options:
                yield from sending.in_bands()
                yield FLUSH
            else:
                yield from sending.pack()
            return
        else:
            if detailed and sending.is_enough():
                yield line(f"ACK {sending.common[-1]} ready\n")
            if detailed or not sending.common:
                yield line("NAK\n")


class _Sending:
    """What a wish comes to: which of the client's commits are known here, and what they lack."""

    def __init__(self, shown: Shown, wish: _Wish) -> None:
        self.common: list[str] = []
        self._store = shown.store
        self._wish = wish
        self._ancestry = Ancestry(shown.store)
        self._others: dict[str, None] = {}
        tips = {oid: self._commit_of(oid) for oid in set(shown.refs.values())}
        self._reachable = self._ancestry.closure(oid for oid in tips.values() if oid)
        self._tips: list[str] = []
        for want in dict.fromkeys(wish.wants):
            # A ref may have moved on since it was told, so its ancestors may be wanted, too.
            if want not in self._reachable and want not in tips:
                raise BadRequestError(f"upload-pack: not our ref {want}")
            commit = self._commit_of(want, self._others)
            self._tips += [commit] if commit else []
        self._shallow = wish.shallow & self._reachable.keys()
        self._cut = self._boundary(shown.refs) if wish.deepens else self._shallow

    def meet(self, oid: str) -> bool:
        """Note a commit that the client has; return whether it is known here.

        Only what a ref leads to is: of anything else parts may be missing by now.
        """
        known = oid in self._reachable
        if known:
            self.common.append(oid)
        return known

    def is_enough(self) -> bool:
        """Tell whether more of the client's commits would not make the pack smaller by much."""
        common = set(self.common)
        return bool(common) and all(
            common & self._ancestry.closure([tip], cut=common).keys() for tip in self._tips
        )

    def boundary_lines(self) -> Iterator[bytes]:
        """Yield where the client's history begins from now on, and where it no longer does."""
        reached = self._ancestry.closure(self._tips, self._cut)
        for oid in sorted(self._cut - self._shallow):
            yield line(f"shallow {oid}")
        for oid in sorted((self._shallow - self._cut) & reached.keys()):
            yield line(f"unshallow {oid}")

    def in_bands(self) -> Iterator[bytes]:
        """Yield the pack in its band, and in others what there is to say."""
        try:
            objects = self._objects()
            if "no-progress" not in self._wish.options:
                told = f"sending {len(objects)} objects\n"
                yield from pkt_lines.in_band(TOLD_BAND, told.encode())
            for part in self.pack(objects):
                yield from pkt_lines.in_band(PACK_BAND, part)
        except BrokenStoreError as error:
            yield from pkt_lines.in_band(FATAL_BAND, f"{error.message}\n".encode())

    def pack(self, objects: list[str] | None = None) -> Iterator[bytes]:
        """Yield the pack."""
        oids = self._objects() if objects is None else objects
        return self._store.pack_of(oids, deltas="ofs-delta" in self._wish.options)

    def _objects(self) -> list[str]:
        """Return the objects that the client lacks."""
        ancestry = self._ancestry
        had = ancestry.closure(self.common, self._shallow)
        reached = ancestry.closure(self._tips, self._cut)
        new = ancestry.parents_first({oid: None for oid in reached if oid not in had})
        met: set[tuple[str, bool]] = set()
        found = dict.fromkeys([*self._others, *new])
        for oid in new:
            commit = ancestry.commit(oid)
            parents = () if oid in self._cut else commit.parents
            before = [ancestry.commit(parent).tree for parent in parents]
            for _, entry in ancestry.new_entries(commit.tree, before, met):
                if entry.mode != SUBMODULE:
                    found[entry.oid] = None
        return list(found)

    def _commit_of(self, oid: str, met: dict[str, None] | None = None) -> str | None:
        """Return the commit that an object is or names, None where it is another's note.

        The tags on the way to it are noted in ``met``, and what the last one names if that is none.
        """
        kind, content = self._store.read_object(oid)
        while kind == b"tag":
            if met is not None:
                met[oid] = None
            oid = content.partition(b"\n")[0].removeprefix(b"object ").decode()
            kind, content = self._store.read_object(oid)
        if kind == b"commit":
            return oid
        if met is not None:
            met[oid] = None
        return None

    def _boundary(self, refs: dict[str, str]) -> set[str]:
        """Return the commits at which the client's history is to begin."""
        wish, ancestry = self._wish, self._ancestry
        if wish.depth:
            starts, steps = self._tips, wish.depth - 1
            if wish.relative:
                had = ancestry.closure(self._tips, self._shallow)
                starts, steps = list(self._shallow & had.keys()), wish.depth
            rings = ancestry.rings(starts, steps)
            return set(rings[steps]) if steps < len(rings) else set()
        outside = ancestry.closure(self._named(name, refs) for name in wish.without)
        inside = {
            oid
            for oid in ancestry.closure(self._tips)
            if oid not in outside and ancestry.commit(oid).time >= (wish.since or 0)
        }
        if not inside:
            raise BadRequestError("no commits selected for shallow requests")
        return {oid for oid in inside if not inside.issuperset(ancestry.commit(oid).parents)}

    def _named(self, name: str, refs: dict[str, str]) -> str:
        for full in (name, f"refs/{name}", f"refs/heads/{name}"):
            commit = self._commit_of(refs[full]) if full in refs else None
            if commit is not None:
                return commit
        raise BadRequestError(f"upload-pack: deepen-not: there is no ref {name!r}")
