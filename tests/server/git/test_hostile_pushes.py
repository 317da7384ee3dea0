"""Pushes of a hostile client: packs, trees and commits that git would not make.

Each is refused with its reason, and leaves neither a ref nor a file behind.
"""

import gzip
import random
import struct
import zlib
from collections.abc import Iterator
from functools import partial

import pytest

from covalt_git.transfers import pushing
from tests.api_client import Api
from tests.server.git.git_served import (
    FLUSH,
    NONE,
    PUSH,
    GitServed,
    chat_with_files,
    commit_content,
    entry,
    git,
    git_served,
    line,
    oid_of,
    pack_of,
    start_of,
    tree_content,
)
from tests.tables import tables

TABLES = tables(__file__)
REF = "refs/heads/x"
BLOB = b"a file\n"
BLOB_ID = oid_of("blob", BLOB)
EMPTY = oid_of("tree", b"")


@pytest.fixture(scope="module")
def served(shared: Api) -> Iterator[GitServed]:
    """A served project with the chat c1, from which nothing that comes here changes anything."""
    chat_with_files(shared)
    with git_served(shared.root) as served:
        yield served
    assert served.fsck() == ""


def refused(served: GitServed, new: str, pack: bytes, *, old: str = NONE) -> str:
    """Push what is refused, see that nothing has changed, and return the report."""
    before = served.refs(), served.files_of_store()
    report = served.send_push(REF, new, pack, old=old)
    assert f"ng {REF} " in report
    assert (served.refs(), served.files_of_store()) == before
    return report


def of_tree(*entries: tuple[str, bytes, str], more: tuple[bytes, ...] = ()) -> tuple[str, bytes]:
    """Return a commit of a tree as it is given, and a pack with both and a file."""
    return of_objects(("tree", tree_content(*entries)), ("blob", BLOB), more=more)


def of_objects(*objects: tuple[str, bytes], more: tuple[bytes, ...] = ()) -> tuple[str, bytes]:
    """Return a commit of the first object as its tree, and a pack with it and all of them."""
    made = ("commit", commit_content(oid_of(*objects[0])))
    entries = [entry(kind, content) for kind, content in (made, *objects)]
    return oid_of(*made), pack_of(*entries, *more)


# Trees and commits


def pushes() -> dict[str, tuple[str, bytes, str]]:
    """Return pushes that git would not make, each with a part of the reason to refuse it."""
    below = tree_content(("100644", b"file", BLOB_ID))
    empty = oid_of("tree", b"")
    found: dict[str, tuple[str, bytes, str]] = {}

    def add(name: str, pushed: tuple[str, bytes], reason: str = "") -> None:
        found[name] = (*pushed, reason or f"(commit {pushed[0][:12]})")

    for name in TABLES["names"]:
        content = name.encode("latin-1" if name == "\xe4" else "utf-8")
        add(f"file {name!r:.20}", of_tree(("100644", content, BLOB_ID)))
        folder = ("40000", content, oid_of("tree", below))
        add(f"folder {name!r:.20}", of_tree(folder, more=(entry("tree", below),)))
    for target in TABLES["links"]:
        link = target.encode()
        pushed = of_tree(("120000", b"link", oid_of("blob", link)), more=(entry("blob", link),))
        add(f"link {target!r}", pushed, "link: it is a link that may lead outside")
    for mode in TABLES["modes"]:
        add(f"mode {mode}", of_tree((mode, b"odd", BLOB_ID)), f"the mode {mode}")
    add("submodule", of_tree(("160000", b"other", "1" * 40)), "other: it is a submodule")
    modules = b'[submodule "x"]\n\tpath = x\n\turl = -upload\n'
    for mode, content in (("120000", b"elsewhere"), ("100644", modules)):
        of_git = (mode, b".gitmodules", oid_of("blob", content))
        pushed = of_tree(of_git, more=(entry("blob", content),))
        add(f".gitmodules {mode}", pushed, f"ng {REF} .gitmodules: git ")
    inner = tree_content(("100644", b".git", BLOB_ID))
    outer = tree_content(("40000", b"deep", oid_of("tree", inner)))
    more = (entry("tree", inner), entry("tree", outer))
    deep = of_tree(("40000", b"very", oid_of("tree", outer)), more=more)
    add("a name far below", deep, f"ng {REF} very/deep/.git: ")
    one, other = ("100644", b"a", BLOB_ID), ("100644", b"b", BLOB_ID)
    for name, content in {
        "unsorted": tree_content(other, one),
        "twice": tree_content(one, one),
        "file and folder": tree_content(one, ("40000", b"a", empty)),
        "no object": tree_content(("100644", b"a", NONE)),
        "cut off": tree_content(one)[:-3],
        "no tree": b"nonsense",
    }.items():
        trees = of_objects(("tree", content), ("blob", BLOB), more=(entry("tree", b""),))
        add(f"tree {name}", trees)
    good = commit_content(empty)
    for name, content in {
        "without author": f"tree {empty}\ncommitter A <a@b> 1 +0000\n\nx".encode(),
        "without time": f"tree {empty}\nauthor A <a@b>\ncommitter A <a@b>\n\nx".encode(),
        "late": good.replace(b"1700000000", b"9" * 25),
        "without email": good.replace(b"<eve@example.com>", b"eve"),
        "short parent": commit_content(empty, "12"),
        "nul": commit_content(empty, message="a\0b"),
        "unknown parent": commit_content(empty, "1" * 40),
        "unknown tree": commit_content("1" * 40),
        "a file as tree": commit_content(BLOB_ID),
        "nonsense": b"nonsense",
    }.items():
        pack = pack_of(entry("commit", content), entry("tree", b""), entry("blob", BLOB))
        add(f"commit {name}", (oid_of("commit", content), pack), "unpack ok\n")
    return found


PUSHES = pushes()


@pytest.mark.parametrize(("new", "pack", "reason"), PUSHES.values(), ids=PUSHES.keys())
def test_a_push_that_git_would_not_make_is_refused(
    served: GitServed, new: str, pack: bytes, reason: str
) -> None:
    report = refused(served, new, pack)

    assert report.startswith("unpack ok\n")
    assert reason in report


def test_an_older_commit_is_checked_too(served: GitServed) -> None:
    bad, good = tree_content(("100644", b".git", BLOB_ID)), tree_content()
    first = commit_content(oid_of("tree", bad))
    second = commit_content(oid_of("tree", good), oid_of("commit", first))
    objects = (("commit", second), ("commit", first), ("tree", bad), ("tree", good), ("blob", BLOB))
    pack = pack_of(*(entry(kind, content) for kind, content in objects))

    assert f"(commit {oid_of('commit', first)[:12]})" in refused(
        served, oid_of("commit", second), pack
    )


def test_only_a_commit_that_is_not_hidden_becomes_a_branch(served: GitServed) -> None:
    hidden = git(served.store(), "rev-parse", "refs/covalt/chat")
    tag = f"object {EMPTY}\ntype tree\ntag x\ntagger A <a@b> 1 +0000\n\nx".encode()
    pack = pack_of(entry("tag", tag), entry("tree", b""), entry("blob", BLOB))
    for oid in (oid_of("tag", tag), EMPTY, BLOB_ID, "1" * 40, hidden):
        assert "is missing or damaged" in refused(served, oid, pack)


def test_every_object_of_a_push_must_be_there(served: GitServed) -> None:
    below = tree_content(("100644", b"file", BLOB_ID))
    root = tree_content(("40000", b"sub", oid_of("tree", below)))
    made = commit_content(oid_of("tree", root))
    entries = {"root": entry("tree", root), "below": entry("tree", below)}
    new = oid_of("commit", made)

    for missing in ("root", "below", "file"):
        rest = [part for name, part in entries.items() if name != missing]
        report = refused(served, new, pack_of(entry("commit", made), *rest))
        assert "is missing or damaged" in report


def test_objects_that_no_branch_reaches_are_not_stored(api: Api) -> None:
    bad = tree_content(("100644", b".git", BLOB_ID))
    new, pack = of_tree(("100644", b"file", BLOB_ID), more=(entry("tree", bad),))
    with git_served(api.root) as served:
        assert served.send_push(REF, new, pack) == f"unpack ok\nok {REF}"
        assert served.refs() == {REF: new}
        listed = git(served.store(), "cat-file", "--batch-all-objects", "--batch-check")
        assert oid_of("tree", bad) not in listed
        assert served.fsck() == ""


# Packs


def packs() -> dict[str, bytes]:
    """Return packs that hold something else than they say."""
    good, base = entry("blob", BLOB), bytes(1 << 19)
    # From half a MiB, by copying it over and over: what it makes would have a TiB.
    bomb = size_of(len(base)) + size_of(1 << 40) + b"\xf0\xff\xff" * 100
    loop, tiny = bytes.fromhex("11" * 20), zlib.compress(b"\1\1\1a")
    return {
        "declared-huge": pack_of(entry("blob", BLOB, size=1 << 40)),
        "declared-endless": pack_of(b"\xbf" + b"\xff" * 40),
        "declared-short": pack_of(entry("blob", BLOB, size=2)),
        "declared-long": pack_of(entry("blob", BLOB, size=20)),
        "huge-tree": pack_of(entry("tree", bytes((16 << 20) + 1))),
        "count-too-high": pack_of(good, count=2),
        "count-too-low": pack_of(good, good, count=1),
        "count-huge": pack_of(good, count=4_000_000_000),
        "kind-0": pack_of(start_of(0, 3) + zlib.compress(b"abc")),
        "kind-5": pack_of(start_of(5, 3) + zlib.compress(b"abc")),
        "not-compressed": pack_of(start_of(3, 3) + b"abc" * 30),
        "delta-bomb": pack_of(
            entry("blob", base),
            start_of(7, len(bomb)) + bytes.fromhex(oid_of("blob", base)) + zlib.compress(bomb),
        ),
        "delta-of-nothing": pack_of(start_of(7, 4) + loop + tiny),
        "delta-before-the-start": pack_of(good, start_of(6, 4) + b"\x7f" + tiny),
        "delta-between": pack_of(good, start_of(6, 4) + b"\x02" + tiny),
        "delta-of-itself": pack_of(good, start_of(6, 4) + b"\x00" + tiny),
        "delta-of-other-size": pack_of(good, start_of(6, 4) + bytes([len(good)]) + tiny),
        "delta-cut-off": pack_of(
            good, start_of(6, 1) + bytes([len(good)]) + zlib.compress(b"\xff")
        ),
        "delta-header-cut-off": pack_of(good, b"\xe0" + b"\xff" * 70),
        "version-4": b"PACK" + struct.pack(">II", 4, 0) + bytes(20),
        "no-pack": b"nonsense" * 10,
        "nothing": b"",
        "wrong-checksum": pack_of(good)[:-1] + b"\0",
        "more-behind": pack_of(good) + b"more",
    }


def size_of(number: int) -> bytes:
    """Return a size as deltas spell it."""
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*made, number])


@pytest.mark.parametrize("pack", packs().values(), ids=packs().keys())
def test_a_pack_that_contradicts_itself_is_refused(served: GitServed, pack: bytes) -> None:
    report = refused(served, BLOB_ID, pack)

    assert report.startswith("unpack ")
    assert not report.startswith("unpack ok")
    assert report.endswith(f"ng {REF} unpacker error")


@pytest.mark.parametrize(
    ("limits", "files", "reason"),
    [
        ({}, [bytes((1 << 20) + 1)], "contains a file of more than 1 MiB"),
        (
            {"together": 10 << 20},
            [bytes((1 << 19) - number) for number in range(21)],
            "contains more than 10 MiB of objects",
        ),
        ({"pack": 1 << 20}, [random.Random(2).randbytes(1 << 19)] * 4, "is larger than 1 MiB"),
    ],
    ids=["file", "together", "pack"],
)
def test_a_pack_over_a_limit_is_refused(
    served: GitServed,
    monkeypatch: pytest.MonkeyPatch,
    limits: dict[str, int],
    files: list[bytes],
    reason: str,
) -> None:
    monkeypatch.setattr(pushing, "LIMITS", partial(pushing.LIMITS, **limits))
    report = refused(served, BLOB_ID, pack_of(*(entry("blob", content) for content in files)))

    assert report.startswith(f"unpack the pack {reason}\n")


COMMAND = line(f"{NONE} {BLOB_ID} {REF}\0report-status".encode())


@pytest.mark.parametrize(
    "body",
    [
        b"0010nonsense\n000",
        b"001fnonsense nonsense nonsense0000",
        COMMAND,
        COMMAND + COMMAND + FLUSH,
        COMMAND + b"000",
        line(f"{NONE} {BLOB_ID} {REF}\0object-format=sha256".encode()) + FLUSH,
        line(f"{NONE} {BLOB_ID}"[:-1].encode()) + FLUSH,
        b"".join(line(f"{NONE} {BLOB_ID} {REF}{number}") for number in range(1_001)) + FLUSH,
    ],
)
def test_malformed_requests_are_answered_in_plain_text(served: GitServed, body: bytes) -> None:
    answer = served.send(PUSH, body)

    assert answer.status == 400, answer.text
    assert answer.headers.get_content_type() == "text/plain"
    assert "Traceback" not in answer.text


def test_a_push_is_not_compressed(served: GitServed) -> None:
    bomb = gzip.compress(bytes(1 << 20))

    assert served.send(PUSH, bomb, Content_Encoding="gzip").status == 415
