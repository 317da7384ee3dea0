"""Reads, fetches and pushes of a repository on a git server by :mod:`.git_http`, for small transfers.

A fetch names object ids instead of refs, so it needs no list of refs, and no ref can disappear before it.  Received objects
are checked as ``git fsck`` does, and are stored only if nothing is missing that the wanted ones reach; a pack with a name that
needs more checks is fetched again by stock git.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.git_store import git_http
from covalt_git.git_store.checking import why_bad_commit, why_bad_tree
from covalt_git.git_store.completeness import reached
from covalt_git.git_store.git_http import (
    FETCH,
    FLUSH,
    MOST_BYTES,
    PUSH,
    GitHttp,
    MalformedAnswerError,
    OfferedRefs,
    UnsuitedError,
)
from covalt_git.git_store.graph import peeled
from covalt_git.git_store.incoming import BadPackError, PackLimits, Quarantine
from covalt_git.git_store.objects import FOLDER, SUBMODULE, BrokenStoreError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from covalt_git.git_store.object_reader import ObjectReader
    from covalt_git.git_store.objects import TreeEntry
    from covalt_git.git_store.server_repository import Move
    from covalt_git.git_store.store import GitStore

_MOST_COMMITS = 256
_MOST_OBJECTS = 4_000
_MOST_HAVES = 64
_OFFER_S = 60.0
"""Time after which the capabilities of a server are read again before a push, in seconds.

A server that stops to offer ``atomic`` can ignore it for this time, and move some of the refs of a push.  Its report has both
refs then, so the outcome of the push counts as not known, and the capabilities are read again before the next one.
"""

_LIMITS = PackLimits(
    pack=MOST_BYTES,
    objects=50_000,
    blob=4 * MOST_BYTES,
    # Each entry of a tree takes 28 bytes at least, and some hundred bytes of memory when the tree is read.
    other=1 << 20,
    together=8 * MOST_BYTES,
)
_NEEDED = frozenset({"report-status", "atomic", "delete-refs"})
_OFFERS: dict[GitHttp, tuple[float, str]] = {}
"""The object format of each repository whose capabilities suffice for a push, and when they were read."""

_UNUSUAL = re.compile(
    rb"\.\.?|\.git.*|\.mailmap|.*[~:\\\x80-\xff].*|.*[. ]", re.IGNORECASE | re.DOTALL
)
"""Names in trees that stock git checks further.

File systems have other names for a file: NTFS a short one such as ``GITMOD~1``, streams after a colon, and dots and spaces at
the end.  HFS+ ignores some characters that are not ASCII.
"""


def refs(repository: GitHttp) -> OfferedRefs:
    """Return the refs of a repository.

    Raises:
        UnsuitedError: if stock git has to read them.
        OSError: if the server does not answer; also HTTPException.
    """
    return git_http.read_offer(repository.get(FETCH), FETCH)


def fetch(repository: GitHttp, store: GitStore, oids: Iterable[str]) -> None:
    """Fetch objects, with all that they reach, into a store.

    Raises:
        UnsuitedError: if stock git has to fetch them; the store has not changed.
        OSError: if the server does not answer, or does not send all of them; the store has not changed; also HTTPException.
    """
    wants = list(dict.fromkeys(oids))
    # A damaged store can have a ref without its object: the server would not send what this ref reaches.
    heads = {oid for oid in store.refs("refs/").values() if store.has(oid)}
    # Any of them will do: without the others, the server only sends more.
    haves = sorted(heads)[:_MOST_HAVES]
    lines = [
        *("thin-pack\n", "no-progress\n", "ofs-delta\n"),
        *(f"want {oid}\n" for oid in wants),
        *(f"have {oid}\n" for oid in haves),
        "done\n",
    ]
    body = b"".join(
        [
            git_http.line("command=fetch\n"),
            git_http.line(f"object-format={store.object_format}\n"),
            git_http.DELIMITER,
            *map(git_http.line, lines),
            FLUSH,
        ]
    )
    parts = git_http.read_pack(repository.post(FETCH, body, Git_Protocol="version=2"))
    try:
        with Quarantine.opened(store, store.path.parent, _LIMITS) as quarantine:
            quarantine.receive(parts)
            for oid in quarantine.ids:
                _check(quarantine, oid)
            try:
                complete = reached(quarantine, wants, heads)
            except BrokenStoreError as error:
                raise MalformedAnswerError(
                    f"the server did not send all objects: {error}"
                ) from None
            # Not all that the server has sent: only of these objects it is known that nothing is missing.
            new = [oid for oid in complete & quarantine.ids if not store.has(oid)]
            quarantine.adopt(new, durable=store.durable)
    except (BadPackError, BrokenStoreError) as error:
        raise UnsuitedError from error


def _check(quarantine: Quarantine, oid: str) -> None:
    """Check an object as git does when it fetches with ``fetch.fsckObjects``."""
    kind, _ = quarantine.find_object(oid)
    if kind == b"tag" or (kind == b"commit" and why_bad_commit(quarantine, oid)):
        raise UnsuitedError
    if kind == b"tree":
        if why_bad_tree(quarantine, oid):
            raise UnsuitedError
        if any(_UNUSUAL.fullmatch(entry.name) for entry in quarantine.read_tree(oid)):
            raise UnsuitedError


def push(
    repository: GitHttp, store: GitStore, moves: Mapping[str, Move], known: Collection[str]
) -> dict[str, str]:
    """Move refs, all or none of them; return the reason for each that did not move.

    ``known`` are objects that the server has, with all that they reach.

    Raises:
        UnsuitedError: if stock git has to push; nothing has moved.
        OSError: if it is not known whether the refs have moved; also HTTPException.
    """
    _check_offer(repository, store)
    no_object = "0" * store.format.hex_length
    rows = [(ref, old or no_object, new or no_object) for ref, (old, new) in moves.items()]
    capabilities = f"report-status atomic delete-refs object-format={store.object_format}"
    body = [git_http.report_request(rows, capabilities)]
    tips = [move.new for move in moves.values() if move.new is not None]
    if tips:
        bases = {*known, *(move.old for move in moves.values() if move.old is not None)}
        try:
            body += _limited(store.pack(_missing(store, tips, bases)))
        except BrokenStoreError as error:
            raise UnsuitedError from error
    # After an error, the capabilities may have changed. A report that moves or refuses all refs is what they promise.
    offer = _OFFERS.pop(repository, None)
    refused = git_http.read_report(repository.post(PUSH, b"".join(body)), moves)
    if offer:
        _OFFERS[repository] = offer
    return refused


def _limited(parts: Iterable[bytes]) -> Iterator[bytes]:
    size = 0
    for part in parts:
        size += len(part)
        if size > MOST_BYTES:
            raise UnsuitedError
        yield part


def _check_offer(repository: GitHttp, store: GitStore) -> None:
    """Check that the server supports such a push: it would ignore ``atomic`` if it does not offer it."""
    read_at, object_format = _OFFERS.get(repository, (0.0, ""))
    if not object_format or time.monotonic() - read_at > _OFFER_S:
        offer = git_http.read_offer(repository.get(PUSH), PUSH)
        if not offer.capabilities >= _NEEDED:
            raise UnsuitedError
        object_format = offer.object_format
        _OFFERS[repository] = time.monotonic(), object_format
    if object_format != store.object_format:
        raise UnsuitedError


class _Walk(NamedTuple):
    """Trees that are left to compare: each with those at the same path in parents of its commit."""

    tree: str
    bases: list[str]


def _missing(store: ObjectReader, tips: Iterable[str], known: Collection[str]) -> list[str]:
    """Return the objects that a server lacks which has ``known``; it may have some of them."""
    heads, others = peeled(store, (tip for tip in tips if tip not in known))
    missing = dict.fromkeys(others)
    waiting = [oid for oid in heads if oid not in known]
    for oid in waiting:  # the loop adds parents to it
        if oid in missing:
            continue
        missing[oid] = None
        commit = store.read_commit(oid)
        trees = [store.read_commit(parent).tree for parent in commit.parents]
        _add_changed(store, _Walk(commit.tree, trees), missing)
        waiting += [parent for parent in commit.parents if parent not in known]
        if len(waiting) > _MOST_COMMITS:
            raise UnsuitedError
    return list(missing)


def _add_changed(store: ObjectReader, start: _Walk, missing: dict[str, None]) -> None:
    """Add a tree and what is in it, without what the other trees have at the same path."""
    walks = [start]
    while walks:
        tree, bases = walks.pop()
        if tree in missing or tree in bases:
            continue
        missing[tree] = None
        earlier: dict[bytes, list[TreeEntry]] = {}
        for base in bases:
            for entry in store.read_tree(base):
                earlier.setdefault(entry.name, []).append(entry)
        for entry in store.read_tree(tree):
            others = earlier.get(entry.name, [])
            if entry.mode == SUBMODULE or any(entry.oid == other.oid for other in others):
                continue
            if entry.mode == FOLDER:
                folders = [other.oid for other in others if other.mode == FOLDER]
                walks.append(_Walk(entry.oid, folders))
            else:
                missing[entry.oid] = None
        if len(missing) > _MOST_OBJECTS:
            raise UnsuitedError
