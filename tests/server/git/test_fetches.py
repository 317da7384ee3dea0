"""Clones and fetches of chats by stock git, and the credentials that they need."""

import gzip
import os
import random
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from covalt_server.git import smart_http
from tests.api_client import TOKEN, Api, configure
from tests.examples import rest
from tests.server.git.git_served import (
    FETCH,
    FLUSH,
    NONE,
    VERSIONS,
    GitServed,
    chat_with_files,
    git,
    git_served,
    line,
    lines_of,
    run,
)
from tests.settling import until

EVERY_VERSION = pytest.mark.parametrize("version", VERSIONS)


@pytest.fixture(scope="module")
def served(shared: Api) -> Iterator[GitServed]:
    """A served project with a chat of two branches and a pending call, for read-only tests."""
    api = shared
    chat_with_files(api)
    api.post("create_branch", chat_id="c1", name="try/blue")
    api.write(
        "big.txt", "0123456789\n" * 9_000
    )  # beyond 16 KiB, so its argument is stored separately
    api.call("app-builder:run_command", command="echo hello")
    api.post("create_chat", chat_id="empty")
    with git_served(api.root) as served:
        yield served


@EVERY_VERSION
def test_a_clone_has_the_branches_and_files_of_the_chat(
    served: GitServed, tmp_path: Path, version: str
) -> None:
    work = served.clone(tmp_path / "work", version=version)

    assert git(work, "rev-parse", "--abbrev-ref", "HEAD") == "main"
    files = set(git(work, "ls-files").splitlines())
    assert files == {"a.txt", "sub/deep/d.txt", "big.txt"}
    assert (work / "a.txt").read_text() == "one\n"
    assert git(work, "fsck", "--strict", "--full") == ""
    heads = {name.removeprefix("refs/heads/"): oid for name, oid in served.refs().items()}
    assert set(heads) == {"main", "try/blue"}
    for name, oid in heads.items():
        assert git(work, "rev-parse", f"origin/{name}") == oid
    assert git(work, "log", "--format=%B") == git(served.store(), "log", "--format=%B", "main")


def test_records_are_fetched_by_their_refspec(served: GitServed, tmp_path: Path) -> None:
    work = served.clone(tmp_path / "work")
    git(work, "fetch", "--quiet", "origin", "refs/covalt/*:refs/covalt/*")
    told = git(work, "for-each-ref", "--format=%(refname)", "refs/covalt")

    assert told.splitlines() == ["refs/covalt/chat", "refs/covalt/records"]
    assert '"title":"A chat"' in git(work, "show", "refs/covalt/chat")
    (kept,) = git(work, "ls-tree", "-r", "--name-only", "refs/covalt/records").splitlines()
    assert "0123456789" in git(work, "show", f"refs/covalt/records:{kept}")
    assert git(work, "fsck", "--strict", "--full") == ""


def test_only_public_refs_are_listed_and_cloned(served: GitServed, tmp_path: Path) -> None:
    for version in VERSIONS:
        protocol = ("-c", f"protocol.version={version}")
        listed = git(tmp_path, *protocol, "ls-remote", "--symref", served.url())
        rows = [row.split("\t") for row in listed.splitlines()]
        assert rows[0] == ["ref: refs/heads/main", "HEAD"]
        records = ["refs/covalt/chat", "refs/covalt/records"]
        names = [name for _, name in rows[1:]]
        assert names == ["HEAD", *records, "refs/heads/main", "refs/heads/try/blue"]

    mirror = served.clone(tmp_path / "mirror", "--mirror")
    hidden = git(served.store(), "for-each-ref", "--format=%(objectname)", "refs/covalt/calls")
    assert run(mirror, "cat-file", "-e", hidden.splitlines()[0]).code != 0


def test_only_commits_that_refs_reach_are_sent(served: GitServed) -> None:
    hidden = git(served.store(), "for-each-ref", "--format=%(objectname)", "refs/covalt/calls")
    for oid in (hidden.splitlines()[0], "1" * 40):
        (told,) = fetched(served, oid)
        assert told == f"ERR upload-pack: not our ref {oid}"
    older = git(served.store(), "rev-parse", "main~1")
    assert fetched(served, older) == ["NAK", "PACK"]


def fetched(served: GitServed, oid: str) -> list[str]:
    """Return the first lines of the answer to a client that has nothing and wants an object."""
    body = line(f"want {oid} ofs-delta") + FLUSH + line("done")
    answer = served.send(FETCH, body)
    assert answer.status == 200
    head, separator, _ = answer.body.partition(b"PACK")
    return lines_of(head + FLUSH) + ["PACK"] * bool(separator)


MINE = b"".join(
    b"commit refs/heads/mine\ncommitter A <a@example.com> %d +0000\ndata 2\nc\n" % number
    + (b"" if number else b"from refs/heads/main^0\n")
    for number in range(20)
)
"""A client's own branch for fast-import: more commits than a fetch offers at once."""


def test_a_fetch_sends_only_new_objects(root: Path, api: Api, tmp_path: Path) -> None:
    chat_with_files(api)
    with git_served(root) as served:
        for version in VERSIONS:
            work = served.clone(tmp_path / f"work{version}", version=version)
            git(work, "fast-import", "--quiet", given=MINE)
            api.write(f"new-{version}.txt", f"new {version}\n")
            protocol = ("-c", f"protocol.version={version}")
            told = run(work, *protocol, "fetch", "--progress").text

            # The call's commit, its tree and the file.
            assert "sending 3 objects" in told, told
            assert git(work, "fsck", "--strict", "--full", "--no-dangling") == ""


def test_a_compressed_request_is_limited(
    served: GitServed, monkeypatch: pytest.MonkeyPatch
) -> None:
    tip = served.refs()["refs/heads/main"]
    body = line(f"want {tip} side-band-64k ofs-delta") + FLUSH + line("done")
    answer = served.send(FETCH, gzip.compress(body), Content_Encoding="gzip")

    assert (answer.status, answer.body[:8]) == (200, b"0008NAK\n")
    broken = served.send(FETCH, gzip.compress(body)[:-9], Content_Encoding="gzip")
    assert broken.status == 400
    monkeypatch.setattr(smart_http, "MOST_ASKED_BYTES", 1 << 20)
    endless = gzip.compress(line(f"want {NONE}") * 25_000)
    assert len(endless) < 1 << 20
    assert served.send(FETCH, endless, Content_Encoding="gzip").status == 413


@EVERY_VERSION
def test_malformed_requests_are_refused(served: GitServed, version: str) -> None:
    for body in (b"0032want", b"zzzz", b"0003", b"0040want 12\n"):
        answer = served.send(FETCH, body, Git_Protocol=f"version={version}")

        assert answer.status == 400
        assert answer.headers.get_content_type() == "text/plain"


def test_a_broken_fetch_closes_the_store(api: Api) -> None:
    chance = random.Random(4)
    api.upload(*((f"noise{number}", chance.randbytes(1 << 20)) for number in range(12)))
    with git_served(api.root) as served:
        body = line(f"want {served.refs()['refs/heads/main']} ofs-delta") + FLUSH + line("done")
        head = (
            f"POST /git/c1/{FETCH} HTTP/1.1\r\nHost: {served.place}\r\n"
            f"Authorization: Bearer {TOKEN}\r\nContent-Length: {len(body)}\r\n"
            f"Content-Type: application/x-{FETCH}-request\r\n\r\n"
        )
        with socket.create_connection(("127.0.0.1", served.port)) as client:
            client.sendall(head.encode() + body)
            assert client.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
            assert is_held(served.store())
        until(lambda: not is_held(served.store()))


def is_held(store: Path) -> bool:
    """Return whether this process, in which the server runs, has a file of a store open."""
    opened = set()
    for handle in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            opened.add(os.readlink(handle))  # noqa: PTH115 - some lead to what is no path
    return any(path.startswith(str(store)) for path in opened)


# A graph of any form, as git itself would serve it


@pytest.fixture(scope="module")
def tangled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitServed]:
    """A served project with a chat of many branches and merges, some packed by stock git."""
    root = tmp_path_factory.mktemp("tangled") / "project"
    root.mkdir()
    configure(root)
    Api.of(root).post("create_chat", chat_id="c1")
    with git_served(root) as served:
        work = served.clone(tmp_path_factory.mktemp("work") / "work")
        git(work, "fast-import", "--quiet", given=tangle(random.Random(7)))
        git(work, "push", "--quiet", "origin", "refs/heads/*:refs/heads/*")
        assert served.fsck() == ""
        yield served


def tangle(chance: random.Random, commits: int = 60) -> bytes:
    """Return a history for fast-import: some 60 commits a minute apart, on five branches."""
    parts = []
    for number in range(1, commits + 1):
        parents = chance.sample(range(max(1, number - 6), number), k=min(number - 1, 2))
        if chance.random() < 0.6:
            parents = parents[:1]
        content = b"%d\n" % chance.randrange(9) * chance.randrange(1, 400)
        path = b"%s/f%d" % (chance.choice([b"a", b"a/b", b"c"]), chance.randrange(5))
        parts += [
            b"commit refs/heads/%s\n" % (b"main" if number == commits else b"b%d" % (number % 4)),
            b"mark :%d\n" % number,
            b"committer A <a@example.com> %d +0000\n" % (1_700_000_000 + 60 * number),
            b"data 2\nc\n",
            b"from :%d\n" % parents[0] if parents else b"",
            *(b"merge :%d\n" % parent for parent in parents[1:]),
            b"M 100644 inline %s\ndata %d\n%s\n" % (path, len(content), content),
            b"deleteall\nM 100644 inline only\ndata 2\nx\n" if chance.random() < 0.1 else b"",
        ]
    # A branch that git forgets between two commits of it is made to go on from elsewhere.
    return b"feature force\n" + b"".join(parts)


def shape(work: Path) -> tuple[list[str], str]:
    """Return the commits of a clone, and where its history begins."""
    shallow = work / ".git" / "shallow"
    begins = sorted(shallow.read_text().split()) if shallow.exists() else []
    return begins, git(work, "rev-list", "--all", "--parents", "--date-order")


@pytest.mark.parametrize(
    ("version", "depth"),
    [("0", "1"), rest("2", "3"), rest("2", "50")],
)
def test_a_shallow_clone_is_as_git_would_make_it(
    tangled: GitServed, tmp_path: Path, version: str, depth: str
) -> None:
    options = ("--depth", depth)
    ours = tangled.clone(tmp_path / "ours", "--no-single-branch", *options, version=version)
    theirs = tmp_path / "theirs"
    store = f"file://{tangled.store()}"
    git(tmp_path, "clone", "--quiet", "--no-single-branch", *options, store, str(theirs))

    assert shape(ours) == shape(theirs)
    assert git(ours, "fsck", "--strict", "--full") == ""
    for work in (ours, theirs):
        git(work, "fetch", "--quiet", "--deepen", "2")
    assert shape(ours) == shape(theirs)
    if shape(ours)[0]:
        git(ours, "fetch", "--quiet", "--unshallow")
    assert shape(ours) == (
        [],
        git(tangled.store(), "rev-list", "--all", "--parents", "--date-order"),
    )
    assert git(ours, "fsck", "--strict", "--full") == ""


# Credentials and other requests

INFO = f"/git/c1/info/refs?service={FETCH}"


def test_git_asks_for_a_token_and_takes_it_from_a_helper(served: GitServed, tmp_path: Path) -> None:
    without = run(tmp_path, "clone", served.url(user=""), "without")
    answer = served.ask("GET", INFO, Authorization="")
    helper = f"!f() {{ echo username=anyone; echo password={TOKEN}; }}; f"
    with_helper = ("-c", f"credential.helper={helper}")
    git(tmp_path, *with_helper, "clone", "--quiet", served.url(user=""), "work")
    header = f"http.extraHeader=Authorization: Bearer {TOKEN}"

    assert "could not read Username" in without.text
    assert answer.headers["WWW-Authenticate"] == 'Basic realm="covalt-git", charset="UTF-8"'
    assert TOKEN not in answer.text
    assert (tmp_path / "work" / "a.txt").exists()
    assert "refs/heads/main" in git(tmp_path, "-c", header, "ls-remote", served.url(user=""))


def test_only_the_token_in_a_header_opens_it(served: GitServed) -> None:
    for value in ("", "Basic eDp3cm9uZw==", "Basic ???", "Bearer wrong", "Bearer ", "Negotiate a"):
        assert served.ask("GET", INFO, Authorization=value).status == 401
    cookie = f"covalt_git_{served.port}={TOKEN}"
    assert served.ask("GET", INFO, Authorization="", Cookie=cookie).status == 401
    assert served.ask("GET", f"{INFO}&token={TOKEN}", Authorization="").status == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site"}, 403),
    ],
    ids=str,
)
def test_other_hosts_and_pages_are_refused(
    served: GitServed, headers: dict[str, str], status: int
) -> None:
    for path in (INFO, "/git/c1", "/git/nothing/at/all"):
        assert served.ask("GET", path, **headers).status == status
    assert served.send(FETCH, FLUSH, **headers).status == status


def test_requests_that_git_does_not_make_are_answered_in_plain_text(
    served: GitServed, tmp_path: Path
) -> None:
    assert "remote: no chat 'c7'" in run(tmp_path, "clone", served.url("c7"), "work").text
    for chat_id in ("c7", "..", "C1", "c1.git"):
        assert served.ask("GET", f"/git/{chat_id}/info/refs?service={FETCH}").status == 404
    dumb = ("HEAD", "objects/info/packs", "objects/12/34", "info/refs")
    for path in (*dumb, "info/refs?service=git-archive"):
        answer = served.ask("GET", f"/git/c1/{path}")
        assert (answer.status, answer.headers.get_content_type()) == (403, "text/plain")
    browser = served.ask("GET", "/git/c1")
    assert browser.status == 404
    assert f"git clone http://{served.place}/git/c1" in browser.text
    for kind in ("application/x-www-form-urlencoded", "text/plain", "multipart/form-data", ""):
        assert served.send(FETCH, FLUSH, Content_Type=kind).status == 415
    assert served.send(FETCH, FLUSH, Content_Encoding="br").status == 415
    assert served.ask("PUT", "/git/c1/info/refs").status == 405
