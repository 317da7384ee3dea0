"""What somebody may push with a git of their own making: packs and trees that git would not make.

Every one of them is refused with its reason, and leaves neither a ref nor a file behind.
"""

from __future__ import annotations

import gzip
import random
import shutil
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from covalt_git.git_objects.pkt_lines import FLUSH, line
from covalt_git.workspaces import pushing
from tests.api_client import Api
from tests.server.git.git_served import (
    NONE,
    PUSH,
    GitServed,
    chat_with_files,
    commit_content,
    entry,
    git,
    git_served,
    oid_of,
    pack_of,
    start_of,
    tree_content,
)

REF = "refs/heads/x"
BLOB = b"a file\n"
BLOB_ID = oid_of("blob", BLOB)


@pytest.fixture(scope="module")
def served(sample_project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitServed]:
    """A served project with the chat c1, from which nothing that comes here changes anything."""
    root = Path(shutil.copytree(sample_project, tmp_path_factory.mktemp("hostile") / "project"))
    api = Api.of(root)
    api.post("create_chat", chat_id="c1")
    chat_with_files(api)
    with git_served(root) as served:
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


def test_what_is_made_by_hand_comes_in_where_nothing_is_wrong(
    sample_project: Path, tmp_path: Path
) -> None:
    root = Path(shutil.copytree(sample_project, tmp_path / "project"))
    Api.of(root).post("create_chat", chat_id="c1")
    new, pack = of_tree(("100644", b"file", BLOB_ID))
    with git_served(root) as served:
        assert served.send_push(REF, new, pack) == f"unpack ok\nok {REF}"
        assert served.refs() == {REF: new}
        assert served.fsck() == ""


# Names

NAMES = {
    "git": b".git",
    "GIT": b".GIT",
    "short": b"git~1",
    "stream": b".git::$INDEX_ALLOCATION",
    "space": b".git ",
    "ignored": ".g\u200cit".encode(),
    "backslash": b".git\\hooks",
    "up": b"..",
    "here": b".",
    "separator": b"a/b",
    "nothing": b"",
    "control": b"a\nb",
    "latin-1": b"\xe4",
    "long": b"x" * 256,
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
@pytest.mark.parametrize("mode", ["100644", "40000"])
def test_names_that_could_harm_a_checkout_are_refused(
    served: GitServed, name: bytes, mode: str
) -> None:
    below = tree_content(("100644", b"file", BLOB_ID))
    target = BLOB_ID if mode == "100644" else oid_of("tree", below)
    new, pack = of_tree((mode, name, target), more=(entry("tree", below),))
    report = refused(served, new, pack)

    assert report.startswith("unpack ok\n")
    assert f"(commit {new[:12]})" in report


def test_the_path_of_a_refused_name_is_told(served: GitServed) -> None:
    inner = tree_content(("100644", b".git", BLOB_ID))
    outer = tree_content(("40000", b"deep", oid_of("tree", inner)))
    more = (entry("tree", inner), entry("tree", outer))
    new, pack = of_tree(("40000", b"very", oid_of("tree", outer)), more=more)

    assert (
        f"ng {REF} very/deep/.git: its name means a git directory to some system "
        f"(commit {new[:12]})"
    ) in refused(served, new, pack)


def test_what_an_older_commit_holds_is_refused_too(served: GitServed) -> None:
    bad, good = tree_content(("100644", b".git", BLOB_ID)), tree_content()
    first = commit_content(oid_of("tree", bad))
    second = commit_content(oid_of("tree", good), oid_of("commit", first))
    objects = (("commit", second), ("commit", first), ("tree", bad), ("tree", good), ("blob", BLOB))
    pack = pack_of(*(entry(kind, content) for kind, content in objects))

    assert f"(commit {oid_of('commit', first)[:12]})" in refused(
        served, oid_of("commit", second), pack
    )


# Kinds of entries

LINKS = ["/etc/passwd", "../x", "a/../../x", "..", "", "a\0b"]


@pytest.mark.parametrize("target", LINKS)
def test_links_that_may_lead_outside_are_refused(served: GitServed, target: str) -> None:
    link = target.encode()
    more = (entry("blob", link),)
    new, pack = of_tree(("120000", b"link", oid_of("blob", link)), more=more)

    assert "link: it is a link that may lead outside" in refused(served, new, pack)


def test_submodules_are_refused(served: GitServed) -> None:
    new, pack = of_tree(("160000", b"other", "1" * 40))

    assert "other: it is a submodule" in refused(served, new, pack)


def test_git_is_not_led_astray_by_its_own_files(served: GitServed) -> None:
    link, modules = b"elsewhere", b'[submodule "x"]\n\tpath = x\n\turl = -upload\n'
    for mode, content in (("120000", link), ("100644", modules)):
        more = (entry("blob", content),)
        new, pack = of_tree((mode, b".gitmodules", oid_of("blob", content)), more=more)

        assert f"ng {REF} .gitmodules: git " in refused(served, new, pack)


@pytest.mark.parametrize("mode", ["100664", "100600", "104755", "020000", "010000", "0100644", "0"])
def test_modes_are_those_of_files_programs_links_and_folders(served: GitServed, mode: str) -> None:
    new, pack = of_tree((mode, b"odd", BLOB_ID))

    told = "no mode" if len(mode) > 6 else f"the mode {mode}"
    assert f"an entry of it has {told} (commit {new[:12]})" in refused(served, new, pack)


BROKEN_TREES = {
    "unsorted": tree_content(("100644", b"b", BLOB_ID), ("100644", b"a", BLOB_ID)),
    "twice": tree_content(("100644", b"a", BLOB_ID), ("100644", b"a", BLOB_ID)),
    "file-and-folder": tree_content(
        ("100644", b"a", BLOB_ID), ("40000", b"a", oid_of("tree", b""))
    ),
    "no-object": tree_content(("100644", b"a", NONE)),
    "cut-off": tree_content(("100644", b"a", BLOB_ID))[:-3],
    "no-tree": b"nonsense",
}


@pytest.mark.parametrize("content", BROKEN_TREES.values(), ids=BROKEN_TREES.keys())
def test_trees_that_git_complains_of_are_refused(served: GitServed, content: bytes) -> None:
    more = (entry("tree", b""),)
    new, pack = of_objects(("tree", content), ("blob", BLOB), more=more)

    assert f"(commit {new[:12]})" in refused(served, new, pack)


EMPTY = oid_of("tree", b"")
BROKEN_COMMITS = {
    "no-author": f"tree {EMPTY}\ncommitter A <a@b> 1 +0000\n\nx".encode(),
    "no-time": f"tree {EMPTY}\nauthor A <a@b>\ncommitter A <a@b>\n\nx".encode(),
    "late": commit_content(EMPTY).replace(b"1700000000", b"9" * 25),
    "no-email": commit_content(EMPTY).replace(b"<eve@example.com>", b"eve"),
    "short-parent": commit_content(EMPTY, "12"),
    "nul": commit_content(EMPTY, message="a\0b"),
    "parent-of-nothing": commit_content(EMPTY, "1" * 40),
    "tree-of-nothing": commit_content("1" * 40),
    "tree-is-a-file": commit_content(BLOB_ID),
    "nonsense": b"nonsense",
}


@pytest.mark.parametrize("content", BROKEN_COMMITS.values(), ids=BROKEN_COMMITS.keys())
def test_commits_that_git_complains_of_are_refused(served: GitServed, content: bytes) -> None:
    pack = pack_of(entry("commit", content), entry("tree", b""), entry("blob", BLOB))

    assert refused(served, oid_of("commit", content), pack).startswith("unpack ok\n")


def test_a_branch_is_a_commit(served: GitServed) -> None:
    tag = f"object {EMPTY}\ntype tree\ntag x\ntagger A <a@b> 1 +0000\n\nx".encode()
    pack = pack_of(entry("tag", tag), entry("tree", b""), entry("blob", BLOB))
    for oid in (oid_of("tag", tag), EMPTY, BLOB_ID, "1" * 40):
        assert "is not there, or it is none" in refused(served, oid, pack)


def test_nothing_may_be_missing(served: GitServed) -> None:
    below = tree_content(("100644", b"file", BLOB_ID))
    root = tree_content(("40000", b"sub", oid_of("tree", below)))
    made = commit_content(oid_of("tree", root))
    entries = {"root": entry("tree", root), "below": entry("tree", below)}
    new = oid_of("commit", made)

    for missing in ("root", "below", "file"):
        rest = [part for name, part in entries.items() if name != missing]
        report = refused(served, new, pack_of(entry("commit", made), *rest))
        assert "is not there, or damaged" in report


def test_what_is_hidden_here_is_no_ones_history(served: GitServed) -> None:
    (card,) = git(
        served.store(), "for-each-ref", "--format=%(objectname)", "refs/covalt/chat"
    ).splitlines()

    assert "is not there, or it is none" in refused(served, card, pack_of())


def test_what_no_branch_leads_to_is_not_kept(sample_project: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(sample_project, tmp_path / "project"))
    Api.of(root).post("create_chat", chat_id="c1")
    bad = tree_content(("100644", b".git", BLOB_ID))
    new, pack = of_tree(("100644", b"file", BLOB_ID), more=(entry("tree", bad),))
    with git_served(root) as served:
        assert served.send_push(REF, new, pack) == f"unpack ok\nok {REF}"
        listed = git(served.store(), "cat-file", "--batch-all-objects", "--batch-check")
        assert oid_of("tree", bad) not in listed
        assert served.fsck() == ""


# Packs


def test_files_over_the_limit_are_refused(served: GitServed) -> None:
    large = bytes((1 << 20) + 1)
    more = (entry("blob", large),)
    new, pack = of_tree(("100644", b"large", oid_of("blob", large)), more=more)

    assert refused(served, new, pack).startswith(
        "unpack the pack holds a file of more than 1 MiB\n"
    )


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
def test_packs_that_are_not_what_they_say_are_refused(served: GitServed, pack: bytes) -> None:
    report = refused(served, BLOB_ID, pack)

    assert report.startswith("unpack ")
    assert not report.startswith("unpack ok")
    assert report.endswith(f"ng {REF} unpacker error")


def test_many_times_the_same_large_file_is_too_much(
    served: GitServed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pushing, "MOST_OBJECTS_BYTES", 10 << 20)
    half = entry("blob", bytes(1 << 19))

    assert refused(served, BLOB_ID, pack_of(*[half] * 21)).startswith(
        "unpack the pack holds more than 10 MiB of objects\n"
    )


def test_a_pack_over_the_limit_is_read_to_its_end_and_refused(
    served: GitServed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pushing, "MOST_PACK_BYTES", 1 << 20)
    noise = random.Random(2)
    pack = pack_of(*(entry("blob", noise.randbytes(1 << 19)) for _ in range(4)))

    assert refused(served, BLOB_ID, pack).startswith("unpack the pack is larger than 1 MiB\n")


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
def test_requests_that_are_none_are_told(served: GitServed, body: bytes) -> None:
    answer = served.send(PUSH, body)

    assert answer.status == 400, answer.text
    assert answer.headers.get_content_type() == "text/plain"
    assert "Traceback" not in answer.text


def test_a_push_is_not_compressed(served: GitServed) -> None:
    bomb = gzip.compress(bytes(1 << 20))

    assert served.send(PUSH, bomb, Content_Encoding="gzip").status == 415
